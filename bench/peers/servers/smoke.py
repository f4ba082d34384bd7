"""Starts every server, has kcat write and read through it, and stops it."""

import pathlib
import shutil
import subprocess

from . import process, running

KCAT_SECONDS_MAX = 60
TOPIC, RECORDS = "smoke", [f"record {n}" for n in range(100)]


def all_of(names: list[str], cache: pathlib.Path, homes: pathlib.Path) -> int:
    if not shutil.which("kcat"):
        raise SystemExit("install kcat first: apt-get install kcat")
    failed = []
    for name in names:
        try:
            server = running.start(name, cache, homes, [])
        except process.Died as reason:
            print(f"{name}: FAILED: {reason}", flush=True)
            failed.append(name)
            continue
        wrong = ""
        try:
            wrong = _round_trip(server.bootstrap)
        finally:
            if not running.stop(name, homes):
                wrong = wrong or "it did not stop in order"
            if process.began(server.pid) == server.began:
                wrong = wrong or f"process {server.pid} is left"
        print(f"{name} {server.version}: {'FAILED: ' + wrong if wrong else 'ok'}, {server.apis} APIs, ready after "
              f"{server.ready_seconds:.1f} s", flush=True)
        if wrong:
            failed.append(name)
    return 1 if failed else 0


def _round_trip(bootstrap: str) -> str:
    """What goes wrong when records are written, and read by a member of a group; "" when nothing does."""
    try:
        kcat = ["kcat", "-q", "-b", bootstrap]
        subprocess.run([*kcat, "-P", "-t", TOPIC, "-X", "acks=all"], input="".join(f"{each}\n" for each in RECORDS),
                       text=True, check=True, timeout=KCAT_SECONDS_MAX, capture_output=True)
        read = subprocess.run([*kcat, "-G", "smoke", "-X", "auto.offset.reset=earliest", "-c", str(len(RECORDS)), TOPIC],
                              stdin=subprocess.DEVNULL, text=True, check=True, timeout=KCAT_SECONDS_MAX,
                              capture_output=True)
    except subprocess.SubprocessError as error:
        return f"{error} {getattr(error, 'stderr', '') or ''}"
    return "" if read.stdout.splitlines() == RECORDS else f"read {read.stdout!r}"
