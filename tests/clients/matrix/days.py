"""One client's day against a gateway of its own, which is killed in the middle of it."""

import dataclasses
import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time

from .clients import Client

# What every client is asked to do, in this order.
STEPS = [
    "connect", "create-topic", "produce", "idempotent", "consume", "rebalance", "commit", "kill-9", "offsets", "admin",
]
# Tells a hang from slowness; a day takes 10 to 100 s.
LINE_SECONDS_MAX = 180
START_SECONDS_MAX = 60
BOOTSTRAP_PORT = 19192


@dataclasses.dataclass
class Step:
    name: str
    outcome: str  # ok, skip or fail
    detail: str


@dataclasses.dataclass
class Report:
    client: str
    version: str
    steps: list[Step] = dataclasses.field(default_factory=list)
    failure: str = ""
    log: str = ""
    seconds: float = 0

    def failed(self) -> bool:
        return bool(self.failure) or any(step.outcome == "fail" for step in self.steps)

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)


class Gateway:
    """A `ringgate serve` at a loopback address of its own; it keeps address and data over a kill."""

    def __init__(self, binary: pathlib.Path, home: pathlib.Path, number: int, shards: int, advertise: str):
        self.binary, self.home = binary, home
        self.ready_file, self.data, self.log_file = home / "ready.json", home / "data", home / "gateway.log"
        # The process id keeps two runs on one machine apart.
        listen = f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}.{number + 1}:{BOOTSTRAP_PORT}"
        self.command = [
            str(binary), "serve", "--listen", listen, "--data", str(self.data), "--ready-file", str(self.ready_file),
            "--shards", str(shards), "--cpus", "none", "--advertise", advertise, "--initial-rebalance-delay", "500ms",
        ]
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts it and returns when it serves."""
        self.ready_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.ready_file.exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"the gateway ended with {self.process.returncode} at its start")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the gateway does not serve after {START_SECONDS_MAX} s")
            time.sleep(0.01)

    def listener(self) -> dict:
        return json.loads(self.ready_file.read_text())["listeners"][0]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> str:
        """Stops it as an operator does, and says what is wrong with how it ended or what it left."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            return "the gateway does not stop"
        if code != 0:
            return f"the gateway ended with {code}"
        if "panicked" in self.log_file.read_text(errors="replace"):
            return "the gateway panicked"
        verify = [str(self.binary), "verify", str(self.data)]
        verified = subprocess.run(verify, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return "" if verified.returncode == 0 else f"`ringgate verify` of what it left: {verified.stdout}"


def live(client: Client, version: str, cache: pathlib.Path, gateway: Gateway) -> Report:
    """Starts the gateway and the client's day, kills the gateway when the day says so, and gathers the steps."""
    report = Report(client.name, version)
    began = time.monotonic()
    log_file = gateway.home / "day.log"
    try:
        gateway.start()
        listener = gateway.listener()
        told = {"BOOTSTRAP": listener["bootstrap"], "NODES": str(len(listener["nodes"])), "PREFIX": f"{client.name}-day"}
        with log_file.open("wb") as log:
            day = subprocess.Popen([client.directory / "day", cache], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=log, text=True, env=os.environ | told, start_new_session=True)
        try:
            report.failure = converse(day, gateway, report)
        finally:
            # The day may have started processes of its own.
            try:
                os.killpg(day.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            day.wait()
        report.failure = report.failure or gateway.stop()
    except RuntimeError as error:
        report.failure = str(error)
    finally:
        if gateway.process and gateway.process.poll() is None:
            gateway.kill()
    report.seconds = time.monotonic() - began
    missing = [name for name in STEPS if not report.step(name)]
    if missing and not report.failure:
        report.failure = f"the day says nothing of {', '.join(missing)}"
    if report.failed():
        report.log = tail("the day", log_file) + tail("the gateway", gateway.log_file)
        if not report.failure:
            print(report.log, flush=True)
    return report


def converse(day: subprocess.Popen, gateway: Gateway, report: Report) -> str:
    """Reads the day's lines to their end; what is wrong, if anything."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in day.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=LINE_SECONDS_MAX)
        except queue.Empty:
            return f"no word for {LINE_SECONDS_MAX} s"
        if line is None:
            break
        if line == "kill":
            gateway.kill()
            gateway.start()
            day.stdin.write("restarted\n")
            day.stdin.flush()
            continue
        word, _, rest = line.partition(" ")
        name, _, rest = rest.partition(" ")
        outcome, _, detail = rest.partition(" ")
        if word != "step" or outcome not in ("ok", "skip", "fail"):
            return f"not a line of a day: {line}"
        if outcome == "skip" and not detail:
            return f"step {name} is skipped without a reason"
        report.steps.append(Step(name, outcome, detail))
        print(f"   {outcome:4} {name} {detail}".rstrip(), flush=True)
    code = day.wait(LINE_SECONDS_MAX)
    if code != 0 and not any(step.outcome == "fail" for step in report.steps):
        return f"the day ended with {code}"
    return ""


def tail(whose: str, file: pathlib.Path) -> str:
    if not file.exists():
        return ""
    lines = file.read_text(errors="replace").splitlines()[-60:]
    return "".join(f"   {whose}: {line}\n" for line in lines)
