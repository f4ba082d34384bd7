"""One client's day against a gateway of its own, which is killed in the middle of it."""

import dataclasses
import json
import os
import pathlib
import queue
import secrets
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
# Of the Iggy server of a gateway that has one. A gateway with a node per shard takes ports from its bootstrap port on.
IGGY_PORT = 19190
SERVER_BOOTSTRAP_PORT = 18192


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


class Serving:
    """A `ringgate serve` that is killed, stopped and started again on its ports and its data."""

    def __init__(self, name: str, binary: pathlib.Path, home: pathlib.Path, flags: list[str], data: pathlib.Path | None):
        self.name, self.binary, self.data = name, binary, data
        self.ready_file, self.log_file = home / f"{name}.json", home / f"{name}.log"
        self.command = [str(binary), "serve", "--ready-file", str(self.ready_file), "--cpus", "none", *flags]
        if data:
            self.command += ["--data", str(data)]
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts it and returns when it serves."""
        self.ready_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.ready_file.exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"the {self.name} ended with {self.process.returncode} at its start")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the {self.name} does not serve after {START_SECONDS_MAX} s")
            time.sleep(0.01)

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
            return f"the {self.name} does not stop"
        if code != 0:
            return f"the {self.name} ended with {code}"
        if "panicked" in self.log_file.read_text(errors="replace"):
            return f"the {self.name} panicked"
        if self.data is None:
            return ""
        verify = [str(self.binary), "verify", str(self.data)]
        verified = subprocess.run(verify, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return "" if verified.returncode == 0 else f"`ringgate verify` of what the {self.name} left: {verified.stdout}"

    def end(self) -> None:
        """Leaves no process behind, whatever happened."""
        if self.process and self.process.poll() is None:
            self.kill()


class Gateway:
    """The gateway of a day, at a loopback address of its own, with the Iggy server that it may need: a second
    `ringgate serve`, which lives through the gateway's kill."""

    def __init__(self, binary: pathlib.Path, home: pathlib.Path, number: int, shards: int, advertise: str, store: str):
        self.home = home
        # The process id keeps two runs on one machine apart.
        ip = f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}.{number + 1}"
        flags = ["--listen", f"{ip}:{BOOTSTRAP_PORT}", "--shards", str(shards), "--advertise", advertise,
                 "--initial-rebalance-delay", "500ms"]
        if store == "iggy":
            iggy, password = f"{ip}:{IGGY_PORT}", secrets.token_hex(16)
            self.server = Serving("Iggy server", binary, home, [
                "--listen", f"{ip}:{SERVER_BOOTSTRAP_PORT}", "--shards", "1",
                "--iggy-listen", iggy, "--iggy-root-password", password,
            ], home / "data")
            flags += ["--store", f"iggy://{iggy}", "--iggy-password", password]
        else:
            self.server = None
        self.serving = Serving("gateway", binary, home, flags, None if self.server else home / "data")

    def start(self) -> None:
        if self.server:
            self.server.start()
        self.serving.start()

    def restart_after_kill(self) -> None:
        self.serving.kill()
        self.serving.start()

    def listener(self) -> dict:
        return json.loads(self.serving.ready_file.read_text())["listeners"][0]

    def stop(self) -> str:
        return self.serving.stop() or (self.server.stop() if self.server else "")

    def end(self) -> None:
        self.serving.end()
        if self.server:
            self.server.end()

    def log(self) -> str:
        """The last lines of what it wrote."""
        server = tail("the Iggy server", self.server.log_file) if self.server else ""
        return tail("the gateway", self.serving.log_file) + server


def live(client: Client, version: str, cache: pathlib.Path, gateway: Gateway) -> Report:
    """Starts the gateway and the client's day, kills the gateway when the day says so, and gathers the steps."""
    report = Report(client.name, version)
    began = time.monotonic()
    log_file = gateway.home / "day.log"
    try:
        gateway.start()
        listener = gateway.listener()
        told = {"BOOTSTRAP": listener["bootstrap"], "NODES": str(len(listener["nodes"])), "PREFIX": f"{client.name}-day",
                "STORE": "iggy" if gateway.server else "embedded"}
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
        gateway.end()
    report.seconds = time.monotonic() - began
    missing = [name for name in STEPS if not report.step(name)]
    if missing and not report.failure:
        report.failure = f"the day says nothing of {', '.join(missing)}"
    if report.failed():
        report.log = tail("the day", log_file) + gateway.log()
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
            gateway.restart_after_kill()
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
