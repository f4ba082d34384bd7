"""What the rows were measured on."""

import os
import pathlib
import platform
import re
import subprocess


def facts(disk: pathlib.Path) -> dict[str, str]:
    """By name, in the order of the page."""
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE)
    hypervisor = re.search(r"^flags\s*:.*\bhypervisor\b", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "CPU": (cpu[1] if cpu else "unknown") + (", in a virtual machine" if hypervisor else ""),
        "Cores": f"{len(os.sched_getaffinity(0))}, shared by the server and the load generator",
        "Memory": f"{int(memory[1]) / (1 << 20):.0f} GiB" if memory else "unknown",
        "Kernel": f"Linux {platform.release()}",
        "Disk": _disk(disk),
        "Java": _first_line(["java", "-version"]),
        "Go": _first_line(["go", "version"]),
    }


def _disk(directory: pathlib.Path) -> str:
    device = subprocess.run(["df", "--output=source,fstype", str(directory)], stdout=subprocess.PIPE, text=True,
                            check=True).stdout.splitlines()[1].split()
    name = pathlib.Path(device[0]).name
    rotational = pathlib.Path(f"/sys/class/block/{name}/queue/rotational")
    cache = pathlib.Path(f"/sys/class/block/{name}/queue/write_cache")
    kind = {"0": "not rotational", "1": "reported as rotational"}.get(rotational.read_text().strip()) if rotational.exists() else None
    told = [each for each in (kind, f"write cache: {cache.read_text().strip()}" if cache.exists() else None) if each]
    return f"{device[1]} on {name}" + (f" ({', '.join(told)})" if told else "")


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.splitlines()[0].strip()
