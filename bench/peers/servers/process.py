"""A server as a process: started apart from whoever starts it, ended by its pid, and told from a later process that
got the same pid."""

import errno
import os
import pathlib
import select
import signal
import subprocess
import sys

STOP_SECONDS_MAX = 60
LOG_LINES_SHOWN = 40


class Died(Exception):
    """It ended before it served."""


def start(command: list[str], log: pathlib.Path, out: pathlib.Path | None = None, cwd: pathlib.Path | None = None) -> int:
    """Starts it with its stderr, and stdout unless that is wanted apart, in the log; gives its pid."""
    with log.open("ab") as errors, (out or log).open("ab") as output:
        # A session of its own: Ctrl-C in a terminal ends the measurement, which then stops its servers in order.
        pid = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=cwd,
                               start_new_session=True).pid
    be_as_nice_as_this(pid)
    return pid


def be_as_nice_as_this(pid: int) -> None:
    """Where a session is a scheduling group of its own, only the group's nice value counts beside other sessions."""
    group = pathlib.Path(f"/proc/{pid}/autogroup")
    if group.exists() and (nice := os.nice(0)) != 0:
        group.write_text(str(nice))


def began(pid: int) -> int | None:
    """When the process began, in ticks since boot; None when there is none, or only what is left of one."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def stop(pid: int, started: int) -> str:
    """Ends the process by SIGTERM and returns when it is gone; "" or what was out of order."""
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ESRCH:
            return "it was gone before it was stopped"
        raise
    try:
        if began(pid) != started:
            return "it was gone before it was stopped"
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if _ended(handle, pid):
            return ""
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        _ended(handle, pid)
        return f"it did not stop within {STOP_SECONDS_MAX} s of SIGTERM, and was killed"
    finally:
        os.close(handle)


def _ended(handle: int, pid: int) -> bool:
    readable, _, _ = select.select([handle], [], [], STOP_SECONDS_MAX)
    if readable:
        try:
            # Where this process is the parent; otherwise that is init's business.
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
    return bool(readable)


def tail(log: pathlib.Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LOG_LINES_SHOWN:])


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)
