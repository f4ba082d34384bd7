"""Servers that run: one of each kind in a directory, with what is known of it in `running.json`."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import time

from . import probe, process
from .frames import Refused
from .kinds import SERVERS

# A JVM on a busy machine with a cold page cache; it takes 3 to 10 s.
START_SECONDS_MAX = 120
PROBE_SECONDS = 0.02
IN_MEMORY = {"tmpfs", "ramfs"}


@dataclasses.dataclass(frozen=True)
class Running:
    """What `start` tells: the JSON that it prints has these fields."""
    server: str
    version: str
    pid: int
    bootstrap: str
    # Seconds from the start of the process to its first complete answer.
    ready_seconds: float
    apis: int
    home: str
    details: dict[str, str]
    # In ticks since boot, to know the process again.
    began: int

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


def find(name: str, homes: pathlib.Path) -> Running | None:
    """The server of that name, if it is alive."""
    file = homes / name / "running.json"
    if not file.exists():
        return None
    running = Running(**json.loads(file.read_text()))
    return running if process.began(running.pid) == running.began else None


def start(name: str, cache: pathlib.Path, homes: pathlib.Path, options: list[str]) -> Running:
    """Starts it in an empty directory, and returns when it serves."""
    if running := find(name, homes):
        raise SystemExit(f"{name} runs already, as process {running.pid}: `stop {name}` first")
    server, home = SERVERS[name], homes / name
    version = server.install(cache)
    if home.exists():
        shutil.rmtree(home)
    home.mkdir(parents=True)
    if (system := _file_system(home)) in IN_MEMORY:
        raise SystemExit(f"{home} is on {system}: what is measured there says nothing of a disk; choose another --homes")
    return _launch(name, version, cache, home, options)


def restart(name: str, cache: pathlib.Path, homes: pathlib.Path, options: list[str]) -> Running:
    """Starts a stopped ringgate on the data that it has."""
    home = homes / name
    (home / "ready.json").unlink(missing_ok=True)
    return _launch(name, SERVERS[name].install(cache), cache, home, options)


def _launch(name: str, version: str, cache: pathlib.Path, home: pathlib.Path, options: list[str]) -> Running:
    server = SERVERS[name]
    pid = server.launch(cache, home, options)
    launched = time.monotonic()
    began = process.began(pid)
    try:
        bootstrap, apis = _serves(name, home, pid)
        running = Running(name, version, pid, bootstrap, time.monotonic() - launched, apis, str(home),
                          server.details(home), began)
        (home / "running.json").write_text(running.as_json())
        return running
    except BaseException:
        if began is not None:
            process.stop(pid, began)
        raise


def _serves(name: str, home: pathlib.Path, pid: int) -> tuple[str, int]:
    """Asks until it answers in full, dies, or takes too long."""
    deadline, missing = time.monotonic() + START_SECONDS_MAX, "it has no address"
    while process.began(pid) is not None:
        if bootstrap := SERVERS[name].bootstrap(home):
            try:
                return bootstrap, probe.check(bootstrap)
            except (OSError, Refused) as reason:
                missing = str(reason)
        if time.monotonic() > deadline:
            raise process.Died(f"{name} does not serve after {START_SECONDS_MAX} s: {missing}\n"
                               f"{process.tail(home / 'log')}")
        time.sleep(PROBE_SECONDS)
    raise process.Died(f"{name} ended before it served\n{process.tail(home / 'log')}")


def stop(name: str, homes: pathlib.Path) -> bool:
    """Stops it; says whether all was in order, and warns of what was not."""
    file = homes / name / "running.json"
    if not file.exists():
        process.warn(f"{name} was not started here")
        return False
    running = Running(**json.loads(file.read_text()))
    wrong = process.stop(running.pid, running.began)
    file.unlink()
    if wrong:
        process.warn(f"{name}, process {running.pid}: {wrong}")
    return not wrong


def _file_system(directory: pathlib.Path) -> str:
    return subprocess.run(["stat", "--file-system", "--format=%T", directory], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()
