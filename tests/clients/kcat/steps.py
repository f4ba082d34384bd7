"""A day of kcat. It has no admin calls: topics are made by producing to them, with one partition each, so that a group
here shares out three topics. The place of a topic among the three stands for the partition in the accounts."""

import json
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterable

from day import (
    BOOTSTRAP, GROUP, NODES, PREFIX, TIMES_TOPIC, TOPIC, WAIT_SECONDS_MAX, Account, Day, Reading, Record, Skip, check, equal,
    turns,
)

CODECS = ["gzip", "snappy", "lz4", "zstd"]
TOPICS = [f"{TOPIC}-{n}" for n in range(3)]
SHARED_TOPICS = [f"{PREFIX}-shared-{n}" for n in range(3)]
KILL_TOPICS = [f"{PREFIX}-kill-{n}" for n in range(3)]
HEADERS = (("again", b"1"), ("other", "значение".encode()), ("again", b"2"), ("empty", b""), ("null", None))
# One after the other, so that three topics go to two members.
MEMBER = ["-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=10000",
          "-X", "partition.assignment.strategy=roundrobin"]
sent = Account()


def command(*arguments: object) -> list[str]:
    return ["kcat", "-b", BOOTSTRAP, *map(str, arguments)]


def run(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs kcat to its end, which must be a good one."""
    done = subprocess.run(command(*arguments), input=stdin, capture_output=True, encoding="utf-8", timeout=WAIT_SECONDS_MAX)
    check(done.returncode == 0, f"kcat {' '.join(map(str, arguments))}: code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def delivered(log: str) -> list[int]:
    """The offsets that a producer at -vvv says it got."""
    return [int(offset) for offset in re.findall(r"Message delivered to partition 0 \(offset (\d+)\)", log)]


def send(topics: list[str], account: Account, batch: list[Record], *arguments: object) -> None:
    """Produces to each topic; the records have all the same headers, as kcat's records of one run do."""
    headers = [word for name, value in batch[0].headers
               for word in ("-H", name if value is None else f"{name}={value.decode()}")]
    lines = "".join(line(record) for record in batch)
    for place, topic in enumerate(topics):
        log = run("-P", "-t", topic, "-K", "\\t", "-vvv", "-X", "acks=all", *headers, *arguments, stdin=lines).stderr
        offsets = delivered(log)
        equal("acknowledged", len(offsets), len(batch))
        for offset, record in zip(offsets, batch):
            account.acknowledge(place, offset, record)


def line(record: Record) -> str:
    """What kcat reads for a record; without a tab it makes a record without a key."""
    key = "" if record.key is None else f"{record.key.decode()}\t"
    return f"{key}{(record.value or b'').decode()}\n"


def records(label: str, count: int, headers: tuple[tuple[str, bytes | None], ...] = ()) -> list[Record]:
    """Keys, some of them empty or null, and values, some of them empty."""
    made = []
    for n in range(count):
        key, value = f"{label}-key-{n}".encode(), f"{label}-{n}".encode()
        match n % 10:
            case 1:
                key = None
            case 2:
                value = b""
            case 5:
                key = b""
        made.append(Record(key, value, headers))
    return made


def tombstones(label: str, count: int) -> list[Record]:
    return [Record(f"{label}-{n}".encode(), None) for n in range(count)]


class Member:
    """A balanced consumer (kcat -G) at work."""

    def __init__(self, group: str, topics: list[str], *arguments: object) -> None:
        self.topics = topics
        self.held: set[str] = set()
        self.said: queue.Queue[tuple[str, str]] = queue.Queue()
        self.log: list[str] = []
        self.process = subprocess.Popen(command("-G", group, *MEMBER, *arguments, "-J", "-u", *topics),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
        self.threads = [threading.Thread(target=self._read, args=(kind, pipe), daemon=True)
                        for kind, pipe in (("record", self.process.stdout), ("log", self.process.stderr))]
        for thread in self.threads:
            thread.start()

    def _read(self, kind: str, pipe: Iterable[str]) -> None:
        for each in pipe:
            self.said.put((kind, each))

    def turn(self, reading: Reading | None = None) -> bool:
        """Takes in what it said so far; says whether there was a record."""
        any_record = False
        seconds = 0.1
        while True:
            try:
                kind, said = self.said.get(timeout=seconds)
            except queue.Empty:
                return any_record
            seconds = 0.01
            if kind == "log":
                self._log(said)
                continue
            any_record = True
            check(reading is not None, f"read again: {said}")
            found = json.loads(said)
            reading.add(self.topics.index(found["topic"]), found["offset"], record_of(found), self)

    def _log(self, said: str) -> None:
        self.log.append(said)
        if match := re.search(r" rebalanced \(.*\): (assigned|revoked): (.*)", said):
            topics = set(re.findall(r"(\S+) \[0\]", match[2]))
            self.held = self.held | topics if match[1] == "assigned" else self.held - topics

    def end(self, reading: Reading | None = None) -> None:
        """Waits until it ends by itself, and takes in all that it said."""
        equal("code of kcat -G", self.process.wait(WAIT_SECONDS_MAX), 0)
        for thread in self.threads:
            thread.join(WAIT_SECONDS_MAX)
        self.turn(reading)

    def stop(self) -> None:
        """Has it leave as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        self.end()


def record_of(found: dict) -> Record:
    names = found.get("headers", [])
    headers = tuple((name, bytes_of(value)) for name, value in zip(names[::2], names[1::2]))
    return Record(bytes_of(found["key"]), bytes_of(found["payload"]), headers)


def bytes_of(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def read_all(what: str, reading: Reading, members: list[Member]) -> None:
    for _ in turns(what):
        if not any([member.turn(reading) for member in members]) and reading.complete():
            break


def until_held(what: str, members: list[Member]) -> None:
    """Until each member has a topic, none the same, and together they have all; nothing must be read meanwhile."""
    for _ in turns(what):
        for member in members:
            member.turn()
        held = [topic for member in members for topic in member.held]
        if sorted(held) == sorted(members[0].topics) and all(member.held for member in members):
            break


def connect() -> str:
    found = json.loads(run("-L", "-J").stdout)
    nodes = {node["id"] for node in found["brokers"]}
    equal("nodes", len(nodes), NODES)
    check(found["controllerid"] in nodes, f"controller {found['controllerid']} is no node")
    return f"{NODES} nodes, controller {found['controllerid']}"


def create_topic() -> None:
    raise Skip("no call to create topics; producing makes them")


def produce() -> str:
    send(TOPICS, sent, records("plain", 90, HEADERS))
    send(TOPICS, sent, tombstones("gone", 10), "-Z")
    for codec in CODECS:
        send(TOPICS, sent, records(codec, 20), "-z", codec)
    found = {topic["topic"]: topic["partitions"] for topic in json.loads(run("-L", "-J").stdout)["topics"]}
    equal("partitions of the topics", [len(found[topic]) for topic in TOPICS], [1, 1, 1])
    return ", ".join(CODECS)


def idempotent() -> None:
    send(TOPICS, sent, records("idempotent", 34), "-X", "enable.idempotence=true")


def read_back(group: str) -> None:
    reading = sent.read()
    Member(group, TOPICS, "-e").end(reading)
    equal("read", len(reading.seen), len(sent.sent))


def consume() -> str:
    read_back(GROUP)
    return f"{len(sent.sent)} records of 3 topics"


def rebalance() -> str:
    group, account = f"{PREFIX}-shared", Account()
    reading = account.read()
    send(SHARED_TOPICS, account, records("first", 1))
    first = Member(group, SHARED_TOPICS)
    read_all("reading what makes the topics", reading, [first])
    until_held("the first member has all topics", [first])
    second = Member(group, SHARED_TOPICS)
    until_held("both members have topics", [first, second])
    send(SHARED_TOPICS, account, records("shared", 30))
    read_all("both members read what was produced", reading, [first, second])
    equal("members that read", len({reader for reader, _ in reading.last}), 2)
    second.stop()
    until_held("the first member has all topics back", [first])
    send(SHARED_TOPICS, account, records("alone", 30))
    read_all("the first member reads all topics", reading, [first])
    first.stop()
    return "two members (kcat -G) share three topics"


def commit() -> str:
    group, reading = f"{PREFIX}-commit", sent.read()
    Member(group, TOPICS, "-c", 77).end(reading)
    equal("read before the commit", len(reading.seen), 77)
    Member(group, TOPICS, "-e").end(reading)
    equal("read in all", len(reading.seen), len(sent.sent))
    return "by what a new member reads; no call to commit offsets of one's own or with metadata, or to read them back"


def kill_9() -> str:
    group, account = f"{PREFIX}-kill", Account()
    reading = account.read()
    send(KILL_TOPICS, account, records("before", 50))
    # Its own pause of up to 10 s before it connects again is as long as its session, which must not end.
    consumer = Member(group, KILL_TOPICS, "-E", "-X", "auto.commit.interval.ms=100", "-X", "reconnect.backoff.max.ms=1000")
    read_all("reading before the kill", reading, [consumer])
    batch = records("through", 1000)
    producers = [subprocess.Popen(command("-P", "-E", "-t", topic, "-K", "\\t", "-vvv", "-X", "enable.idempotence=true"),
                                  stdin=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") for topic in KILL_TOPICS]

    def give(some: list[Record]) -> None:
        for producer in producers:
            producer.stdin.write("".join(map(line, some)))
            producer.stdin.flush()

    # It reads its input in blocks, so that not all of this is on its way.
    give(batch[:500])
    # Records that a second reader has are acknowledged, whatever the producers have said of them by now.
    for topic in KILL_TOPICS:
        run("-C", "-t", topic, "-o", 50, "-c", 20)
    Day.kill()
    give(batch[500:])
    for place, producer in enumerate(producers):
        _, log = producer.communicate(timeout=WAIT_SECONDS_MAX)
        equal("code of kcat -P", producer.returncode, 0)
        offsets = delivered(log)
        equal("acknowledged through the kill", offsets, list(range(50, 1050)))
        for offset, record in zip(offsets, batch):
            account.acknowledge(place, offset, record)
    read_all("reading on after the kill", reading, [consumer])
    consumer.stop()
    # What the group committed is kept: a new member of it reads nothing.
    Member(group, KILL_TOPICS, "-e").end()
    read_back(f"{PREFIX}-again")
    return f"{len(account.sent)} records through the kill, each read once"


def offsets() -> str:
    for n in range(5):
        run("-P", "-t", TIMES_TOPIC, stdin=f"{n}\n")
    stored = [json.loads(each) for each in run("-C", "-t", TIMES_TOPIC, "-o", "beginning", "-e", "-J").stdout.splitlines()]
    equal("offsets", [each["offset"] for each in stored], list(range(5)))

    def listed(time: int) -> int:
        return int(re.search(r"offset (-?\d+)", run("-Q", "-t", f"{TIMES_TOPIC}:0:{time}").stdout)[1])

    equal("earliest", listed(-2), 0)
    equal("latest", listed(-1), 5)
    times = [each["ts"] for each in stored]
    for time in times:
        equal("at a timestamp", listed(time), times.index(time))
    equal("beyond the last timestamp", listed(times[-1] + 1), -1)
    tail = run("-C", "-t", TIMES_TOPIC, "-o", -2, "-e", "-J").stdout.splitlines()
    equal("two before the end", [json.loads(each)["offset"] for each in tail], [3, 4])
    since = run("-C", "-t", TIMES_TOPIC, "-o", f"s@{times[2]}", "-e", "-J").stdout.splitlines()
    equal("since a timestamp", json.loads(since[0])["offset"], times.index(times[2]))
    return "earliest, latest, by time, from the end, since a time"


def administer() -> None:
    raise Skip("no admin calls")


def main() -> None:
    day = Day()
    day.step("connect", connect)
    day.step("create-topic", create_topic)
    day.step("produce", produce)
    day.step("idempotent", idempotent)
    day.step("consume", consume)
    day.step("rebalance", rebalance)
    day.step("commit", commit)
    day.step("kill-9", kill_9)
    day.step("offsets", offsets)
    day.step("admin", administer)
    day.end()


main()
