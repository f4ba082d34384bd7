"""Which clients there are, and how they are installed."""

import dataclasses
import pathlib
import subprocess
import sys
import time

# The order of the table. What is not named here follows by name.
ORDER = [
    "kafka-tools", "java", "confluent-kafka", "kafka-python", "aiokafka", "franz-go", "sarama", "kafka-go", "kafkajs",
    "platformatic-kafka", "kcat", "krafka",
]
# A registry that does not answer must not hold the run up for ever.
INSTALL_SECONDS_MAX = 900
# One that fails once may well answer a moment later.
INSTALL_TRIES_MAX = 3
INSTALL_PAUSE_SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Client:
    """A directory with `install` and `day`; `needs` lists the commands that must be there first."""
    name: str
    directory: pathlib.Path

    def needs(self) -> list[str]:
        file = self.directory / "needs"
        return file.read_text().split() if file.exists() else []


@dataclasses.dataclass
class Install:
    version: str = ""
    failure: str = ""
    log: str = ""


def choose(here: pathlib.Path, only: list[str]) -> list[Client]:
    """All clients in the order of the table, or those that are named."""
    found = {day.parent.name: Client(day.parent.name, day.parent) for day in here.glob("*/day")}
    if unknown := [name for name in only if name not in found]:
        sys.exit(f"--only: no client {', '.join(unknown)}; there are {', '.join(sorted(found))}")
    place = {name: n for n, name in enumerate(ORDER)}
    names = sorted(only or found, key=lambda name: (place.get(name, len(ORDER)), name))
    return [found[name] for name in names]


def install(client: Client, cache: pathlib.Path) -> Install:
    """Installs the client into its part of the cache; the last line of `install` names its version. What `install` did
    before it failed is done again or found done when it is tried again."""
    directory = cache / client.name
    directory.mkdir(parents=True, exist_ok=True)
    log, due = "", time.monotonic() + INSTALL_SECONDS_MAX
    for left in reversed(range(INSTALL_TRIES_MAX)):
        try:
            done = subprocess.run(
                [client.directory / "install", directory], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=max(due - time.monotonic(), 0),
            )
        except subprocess.TimeoutExpired as late:
            return Install(failure=f"not done after {INSTALL_SECONDS_MAX} s", log=f"{log}{late.output or ''}")
        if done.returncode == 0:
            break
        log += done.stdout
        if left:
            print(f"install {client.name}: exit code {done.returncode}, and once more", flush=True)
            time.sleep(INSTALL_PAUSE_SECONDS)
    else:
        return Install(failure=f"exit code {done.returncode}", log=log)
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("version "):
        return Install(failure="its last line is no `version X`", log=done.stdout)
    print(f"installed {client.name} {lines[-1].removeprefix('version ')}", flush=True)
    return Install(version=lines[-1].removeprefix("version "))
