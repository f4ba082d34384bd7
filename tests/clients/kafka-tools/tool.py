"""How the tools are run: as the scripts of a Kafka distribution do it, a process each, with flags for a quick start."""

import json
import os
import pathlib
import queue
import signal
import subprocess
import threading

from day import BOOTSTRAP, WAIT_SECONDS_MAX, check, turns

CACHE = pathlib.Path(os.environ["CACHE_DIR"])
# The class that each script of Kafka's bin directory runs.
CLASSES = {
    "kafka-broker-api-versions": "BrokerApiVersionsCommand",
    "kafka-cluster": "ClusterTool",
    "kafka-configs": "ConfigCommand",
    "kafka-console-consumer": "consumer.ConsoleConsumer",
    "kafka-console-producer": "ConsoleProducer",
    "kafka-consumer-groups": "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "ConsumerPerformance",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-groups": "GroupsCommand",
    "kafka-producer-perf-test": "ProducerPerformance",
    "kafka-topics": "TopicCommand",
    "kafka-verifiable-consumer": "VerifiableConsumer",
    "kafka-verifiable-producer": "VerifiableProducer",
}


# The classes of an admin tool as the JVM keeps them for a quicker start. Where it is missing or of another
# JVM it goes on without, and -Xlog:disable keeps that out of what the tools say.
ARCHIVE = CACHE / "classes.jsa"


def archive_classes() -> None:
    """Makes the archive, by a tool that talks with the gateway; half a day of tools is the start of their JVMs."""
    if not ARCHIVE.exists():
        made = ARCHIVE.with_suffix(f".{os.getpid()}")
        line = command("kafka-consumer-groups", "--list")
        subprocess.run([line[0], f"-XX:ArchiveClassesAtExit={made}", *line[1:]], capture_output=True, check=True,
                       timeout=WAIT_SECONDS_MAX)
        made.replace(ARCHIVE)


def command(tool: str, *arguments: object) -> list[str]:
    """The command line; what is said of the command `kafka-cluster cluster-id` comes before the server's address."""
    words = [str(word) for word in arguments]
    leading = [words.pop(0)] if words and not words[0].startswith("-") else []
    archive = [f"-XX:SharedArchiveFile={ARCHIVE}"] if ARCHIVE.exists() else []
    return [
        "java", *archive, "-Xlog:disable", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m",
        "-Dfile.encoding=UTF-8", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{CACHE}/jars/*",
        f"org.apache.kafka.tools.{CLASSES[tool]}", *leading, "--bootstrap-server", BOOTSTRAP, *words,
    ]


def run(tool: str, *arguments: object, stdin: str = "", refused: bool = False) -> str:
    """Runs a tool to its end and gives its output; all must have gone well, but where it is refused, which the caller
    looks for in what it says."""
    done = subprocess.run(command(tool, *arguments), input=stdin, capture_output=True, encoding="utf-8",
                          timeout=WAIT_SECONDS_MAX)
    said = f"{tool} {' '.join(map(str, arguments))}: code {done.returncode}\n{done.stdout}{done.stderr}"
    if refused:
        return done.stdout + done.stderr
    # Some tools log what went wrong and yet end with 0.
    wrong = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line or line.startswith("Error")]
    check(done.returncode == 0 and not wrong, said)
    return done.stdout


def table(output: str) -> list[dict[str, str]]:
    """The rows under a line of capitals; rows of another table may follow under their own such line."""
    rows: list[dict[str, str]] = []
    names: list[str] = []
    for line in output.splitlines():
        cells = line.replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        if cells and all(cell == cell.upper() and cell[0] in "ABCDEFGHIJKLMNOPQRSTUVWXYZ#" for cell in cells):
            names = cells
        elif cells and names and len(cells) <= len(names):
            rows.append(dict(zip(names, cells)))
    return rows


class Running:
    """A verifiable producer or consumer at work, which says what it does in lines of JSON."""

    def __init__(self, tool: str, *arguments: object) -> None:
        self.tool = tool
        self.lines: queue.Queue[str] = queue.Queue()
        self.process = subprocess.Popen(command(tool, *arguments), stdout=subprocess.PIPE, encoding="utf-8")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)

    def event(self, seconds: float = 0.1) -> dict | None:
        """What it says next, if it does so soon."""
        try:
            return json.loads(self.lines.get(timeout=seconds))
        except queue.Empty:
            check(self.process.poll() in (None, 0), f"{self.tool} ended with {self.process.returncode}")
            return None

    def stop(self) -> None:
        """Has it leave in order. SIGTERM: a shell without job control has what it starts in the background ignore SIGINT."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_SECONDS_MAX)


class Member(Running):
    """A verifiable consumer: its partitions, and what it read and commits."""

    def __init__(self, group: str, topic: str, take) -> None:
        super().__init__("kafka-verifiable-consumer", "--topic", topic, "--group-id", group, "--verbose",
                         "--session-timeout", 10000, "--reset-policy", "earliest")
        self.take = take
        self.partitions: set[int] = set()

    def turn(self) -> bool:
        """Takes in what it said; says whether there was anything."""
        any_event = False
        while (event := self.event()) is not None:
            any_event = True
            match event["name"]:
                case "partitions_assigned":
                    self.partitions |= {each["partition"] for each in event["partitions"]}
                case "partitions_revoked":
                    self.partitions -= {each["partition"] for each in event["partitions"]}
                case "record_data":
                    self.take(self, event["partition"], event["offset"], event["key"], event["value"])
        return any_event


def until_partitions(what: str, members: list[Member]) -> None:
    """Until each member has partitions, no two the same, and together they have all three."""
    for _ in turns(what):
        for member in members:
            member.turn()
        held = [partition for member in members for partition in member.partitions]
        if sorted(held) == [0, 1, 2] and all(member.partitions for member in members):
            break
