"""What rows are measured with: the servers, the load generator, and a directory where everything is kept."""

import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable

from servers import process, running
from servers.kinds import ROOT, SERVERS

from .outcome import Outcome

# A run has a length of its own; beyond it and this it hangs.
RUN_SECONDS_MAX = 600
INVALID = 5


class CannotMeasure(Exception):
    """A row, or a part of it, cannot be measured; says why."""


class Run:
    """A finished run of the load generator."""

    def __init__(self, directory: pathlib.Path, command: str) -> None:
        self.directory, self.command = directory, command
        self.result = json.loads((directory / "result.json").read_text())

    def percentile(self, series: str, which: str) -> float:
        """In seconds."""
        latencies = self.result["latencies"]
        if series not in latencies:
            raise CannotMeasure(f"`{self.command}` tells nothing of {series}; it has {', '.join(latencies) or 'nothing'}")
        return latencies[series]["percentiles_ns"][which] / 1e9

    def value(self, name: str) -> float:
        values = self.result["values"]
        if name not in values:
            raise CannotMeasure(f"`{self.command}` has no value {name}; it has {', '.join(values) or 'none'}")
        return values[name]["value"]

    def has(self, name: str) -> bool:
        return name in self.result["values"]

    def server(self, name: str) -> float:
        value = (self.result["server"] or {}).get(name)
        if value is None:
            raise CannotMeasure(f"`{self.command}` tells no {name} of the server")
        return value

    def reasons_invalid(self) -> list[str]:
        verdict = self.result["verdict"]
        return [] if verdict["valid"] else verdict["reasons"] or ["invalid, without a reason"]

    def faults(self) -> str:
        """What was wrong with what was moved, and errors."""
        wrong = [f"{count} {kind}" for kind, count in self.result["checks"]["violations"].items() if count]
        wrong += [f"{error['count']} {error['name']} of {error['operation']}" for error in self.result["errors"]]
        return ", ".join(wrong)


class Session:
    """The tools of a row that is measured, and its outcome."""

    def __init__(self, row: str, flags) -> None:
        self.flags, self.quick = flags, flags.quick
        self.directory = flags.results / row
        self.homes = flags.homes
        if self.directory.exists():
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True)
        self.started: dict[str, running.Running] = {}
        self.tools: list[tuple[int, int]] = []
        self.runs = 0
        self.outcome = Outcome(row, began=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                               load_before=os.getloadavg()[0], quick=flags.quick)

    def rounds(self, full: int = 3) -> int:
        return 1 if self.quick else full

    def seconds(self, full: float, quick: float | None = None) -> str:
        """A length of a run, as the generator takes it."""
        length = (quick if quick is not None else min(full, 2)) if self.quick else full
        return f"{length:g}s"

    # Servers.

    def start(self, name: str, *options: str) -> running.Running:
        server = running.start(name, self.flags.cache, self.homes, list(options))
        self.started[name] = server
        self.outcome.versions[name] = server.version
        self.note_command(f"bench/peers/run start {name}" + (f" -- {' '.join(options)}" if options else ""))
        return server

    def restart(self, name: str, *options: str) -> running.Running:
        """Stops it in order and starts it on its data."""
        self.stop(name)
        self.started[name] = running.restart(name, self.flags.cache, self.homes, list(options))
        return self.started[name]

    def stop(self, name: str) -> None:
        self.started.pop(name)
        if not running.stop(name, self.homes):
            self.outcome.notes.append(f"{name} did not stop in order")

    def start_tool(self, name: str, *arguments: str) -> tuple[str, int]:
        """Starts an example of the runtime crate that prints an address; the address and the pid."""
        out = self.directory / f"{name}-{len(self.tools)}.out"
        pid = process.start([str(self.tool(name)), *arguments], self.directory / f"{name}.log", out=out)
        began = process.began(pid)
        if began is None:
            raise CannotMeasure(f"{name} ended at once: {process.tail(self.directory / f'{name}.log')}")
        self.tools.append((pid, began))
        deadline = time.monotonic() + running.START_SECONDS_MAX
        while not (address := out.read_text()).endswith("\n"):
            if process.began(pid) != began or time.monotonic() > deadline:
                raise CannotMeasure(f"{name} prints no address: {process.tail(self.directory / f'{name}.log')}")
            time.sleep(running.PROBE_SECONDS)
        self.note_command(f"{name} {' '.join(arguments)}")
        return address.strip(), pid

    def tool(self, name: str) -> pathlib.Path:
        """An example of the runtime crate, in a release build."""
        return target_directory() / "release" / "examples" / name

    def close(self) -> None:
        """Leaves no process and no data behind."""
        for name in list(self.started):
            self.stop(name)
        for pid, began in self.tools:
            process.stop(pid, began)
        self.tools.clear()
        for name in SERVERS:
            for part in ("data", "ready.json"):
                shutil.rmtree(self.homes / name / part, ignore_errors=True)

    # The load generator.

    def bench(self, name: str, scenario: str, *arguments: str, address: str, pid: int | None = None) -> Run:
        """One run. One whose generator was at its limits counts, too, and the page says so."""
        self.runs += 1
        out = self.directory / f"{self.runs:02}-{name}"
        out.mkdir()
        command = [str(self.flags.bench), scenario, "--bootstrap", address, *arguments, "--name", name]
        if pid is not None:
            command += ["--server-pid", str(pid)]
        shown = "ringgate-bench " + " ".join(command[1:])
        shown = shown.replace(address, "ADDRESS").replace(f"--server-pid {pid}", "--server-pid PID")
        self.note_command(shown)
        done = subprocess.run([*command, "--out", str(out)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=RUN_SECONDS_MAX)
        (out / "stdout").write_text(done.stdout)
        (out / "stderr").write_text(done.stderr)
        made = sorted(out.glob("run-*"))
        if done.returncode not in (0, INVALID) or not made:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
            raise CannotMeasure(f"`{shown}` ended with {done.returncode}: {' '.join(said)}")
        run = Run(made[-1], shown)
        if faults := run.faults():
            self.note(f"{name}, {scenario}: {faults}")
        if reasons := run.reasons_invalid():
            self.outcome.invalid.append(f"{name}, {scenario}: {'; '.join(reasons)}")
        return run

    def in_turns(self, targets: dict[str, Callable[[], dict[str, float]]], full: int = 3) -> list[dict[str, dict[str, float]]]:
        """Measures each target in every round, forwards and backwards in turn, so that what drifts hits all alike."""
        found = []
        for turn in range(self.rounds(full)):
            names = list(targets) if turn % 2 == 0 else list(targets)[::-1]
            found.append({name: targets[name]() for name in names})
        return found

    # What is told.

    def note(self, text: str) -> None:
        if text not in self.outcome.notes:
            self.outcome.notes.append(text)

    def note_command(self, command: str) -> None:
        command = re.sub(r"127\.0\.0\.1:[1-9]\d+", "ADDRESS", command)
        if command not in self.outcome.commands:
            self.outcome.commands.append(command)

    def finish(self) -> Outcome:
        began = datetime.datetime.fromisoformat(self.outcome.began)
        self.outcome.seconds = (datetime.datetime.now(datetime.UTC) - began).total_seconds()
        self.outcome.save(self.directory)
        return self.outcome


def target_directory() -> pathlib.Path:
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, threads that have ended among it."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
