"""What the days in Python share: talking with `run`, records that are told apart, and the account of them."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# Proves liveness, never speed: everything waited for takes a second or two.
WAIT_SECONDS_MAX = 60
BOOTSTRAP = os.environ["BOOTSTRAP"]
PREFIX = os.environ["PREFIX"]
NODES = int(os.environ["NODES"])
PARTITIONS = 3
TOPIC = f"{PREFIX}-records"
SHARED_TOPIC = f"{PREFIX}-shared"
KILL_TOPIC = f"{PREFIX}-kill"
TIMES_TOPIC = f"{PREFIX}-times"
GROUP = f"{PREFIX}-group"


class Skip(Exception):
    """The client has no call for the step; says which."""


class Day:
    """The lines of a day on standard output, and how it ends."""

    def __init__(self) -> None:
        self.failed = False

    def step(self, name: str, work: Callable[[], str | None]) -> None:
        """Does one step and says how it went; a failed one does not keep the later ones from being tried."""
        began = time.monotonic()
        try:
            self.say(name, "ok", work() or "")
        except Skip as reason:
            self.say(name, "skip", str(reason))
        except Exception as error:
            self.fail(name, error)
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)

    def fail(self, name: str, error: Exception) -> None:
        self.failed = True
        traceback.print_exception(error)
        self.say(name, "fail", f"{type(error).__name__}: {error}")

    @staticmethod
    def say(name: str, outcome: str, detail: str) -> None:
        print(f"step {name} {outcome} {' '.join(detail.split())}".rstrip(), flush=True)

    @staticmethod
    def kill() -> None:
        """Has the gateway killed with SIGKILL and started again; returns when it serves."""
        print("kill", flush=True)
        answer = sys.stdin.readline().strip()
        check(answer == "restarted", f"run answered {answer!r}")

    def end(self) -> None:
        # Threads of a client that hang at its end must not keep a day that is over.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1 if self.failed else 0)


def check(holds: bool, otherwise: str) -> None:
    """Like assert, and also there under -O."""
    if not holds:
        raise AssertionError(otherwise)


def equal(what: str, found: object, expected: object) -> None:
    check(found == expected, f"{what}: {found!r}, expected {expected!r}")


def turns(what: str) -> Iterator[None]:
    """Turns of a loop that polls the client until its body breaks out; fails after the deadline."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        yield
    raise TimeoutError(f"{what}: not after {WAIT_SECONDS_MAX} s")


@dataclass(frozen=True)
class Record:
    """What a producer gives and a consumer must give back."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(label: str, count: int, null_headers: bool = True) -> list[Record]:
    """Records with all that is odd about keys, values and headers, which differ from each other where they can."""
    made = []
    for n in range(count):
        key: bytes | None = f"{label}-key-{n}".encode()
        value: bytes | None = f"{label}-{n}-".encode() + bytes(range(n % 256))
        headers: tuple[tuple[str, bytes | None], ...] = (("n", str(n).encode()), ("label", label.encode()))
        match n % 10:
            case 1:
                key = None
            case 2:
                value = b""
            case 3:
                value = None
            case 4:
                headers = (("again", b"1"), ("other", b"\x00\xff"), ("again", b"2"), ("again", b"1"))
            case 5:
                key = b""
            case 6:
                headers = ()
            case 7:
                headers = (("empty", b""), ("ключ", "значение".encode()))
            case 8 if null_headers:
                headers = (("null", None),)
        made.append(Record(key, value, headers))
    return made


@dataclass
class Account:
    """What was acknowledged on a topic, by partition and offset."""
    sent: dict[tuple[int, int], Record] = field(default_factory=dict)

    def acknowledge(self, partition: int, offset: int, record: Record) -> None:
        check(offset >= 0, f"acknowledged without an offset: {record}")
        check((partition, offset) not in self.sent, f"offset {offset} of partition {partition} was given twice")
        self.sent[partition, offset] = record

    def ends(self) -> dict[int, int]:
        """The next offset of each partition."""
        ends: dict[int, int] = {}
        for partition, offset in self.sent:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends

    def read(self) -> "Reading":
        return Reading(self)


class Reading:
    """What consumers read of a topic. Everything must come once, in order, as it was sent."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.seen: set[tuple[int, int]] = set()
        self.last: dict[tuple[object, int], int] = {}

    def add(self, partition: int, offset: int, record: Record, reader: object = None) -> None:
        at = f"partition {partition} offset {offset}"
        sent = self.account.sent.get((partition, offset))
        check(sent is not None, f"{at} was read and never acknowledged: {record}")
        equal(at, record, sent)
        check((partition, offset) not in self.seen, f"{at} was read twice")
        check(self.last.get((reader, partition), -1) < offset, f"{at} was read out of order")
        self.seen.add((partition, offset))
        self.last[reader, partition] = offset

    def complete(self) -> bool:
        check(len(self.account.sent) > 0, "nothing was acknowledged that could be read")
        return len(self.seen) == len(self.account.sent)


class Chores:
    """The many small calls of one step: one that fails does not keep the others from being tried."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []
        self.missing: list[str] = []

    def do(self, name: str, work: Callable[[], object]) -> None:
        try:
            work()
            self.done.append(name)
        except Exception as error:
            self.note_failure(name, error)

    def note_failure(self, name: str, error: Exception) -> None:
        traceback.print_exception(error)
        self.failed.append(f"{name} ({type(error).__name__}: {error})")

    def lacks(self, *names: str) -> None:
        """Calls that the client does not have."""
        self.missing.extend(names)

    def detail(self) -> str:
        check(not self.failed, "; ".join(self.failed))
        return ", ".join(self.done) + (f"; not in the client: {', '.join(self.missing)}" if self.missing else "")
