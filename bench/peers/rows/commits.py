"""Rows of committed offsets."""

import os
import pathlib
import statistics
import time
import urllib.request

from .outcome import Bound, median_ratio, number
from .session import Session

# A batch of some hundred commits.
SYNCED_BYTES = 32 << 10


def durable(session: Session) -> None:
    """1,000 members, each with one commit in flight, where every acknowledgement is on disk."""
    members, groups = ("100", "10") if session.quick else ("1000", "10")
    storm = ["--groups", groups, "--members", str(int(members) // int(groups)), "--closed",
             "--duration", session.seconds(8), "--warmup", session.seconds(2, 1)]
    gateway = session.start("ringgate", "--initial-rebalance-delay", "0")
    kafka = session.start("kafka-flush")
    per_sync, synced = [], []

    def ours() -> dict[str, float]:
        synced.append(sync_seconds(pathlib.Path(gateway.home), 200 if session.quick else 1_000))
        before = commit_counters(gateway.details["admin"])
        run = session.bench("ringgate", "commit-storm", *storm, address=gateway.bootstrap, pid=gateway.pid)
        after = commit_counters(gateway.details["admin"])
        batches = after["batches"] - before["batches"]
        per_sync.append((after["records"] - before["records"]) / max(batches, 1))
        return {"rate": run.value("rate"), "p99": run.percentile("commit.rt", "99")}

    def theirs() -> dict[str, float]:
        run = session.bench("kafka-flush", "commit-storm", *storm, address=kafka.bootstrap, pid=kafka.pid)
        return {"rate": run.value("rate"), "p99": run.percentile("commit.rt", "99")}

    turns = session.in_turns({"ringgate": ours, "kafka-flush": theirs})
    session.outcome.columns = ["ringgate commits/s", "Kafka commits/s", "ringgate p99, ms", "Kafka p99, ms",
                               "commits per fdatasync", "fdatasync p99, ms"]
    session.outcome.rounds = [
        [*(number(each[who]["rate"]) for who in ("ringgate", "kafka-flush")),
         *(number(each[who]["p99"] * 1e3) for who in ("ringgate", "kafka-flush")),
         number(commits), number(sync["p99"] * 1e3)]
        for each, commits, sync in zip(turns, per_sync, synced)
    ]
    session.outcome.bounds = [
        Bound("commits/s, to Kafka with flush per message",
              median_ratio([{who: each[who]["rate"] for who in each} for each in turns], "ringgate", "kafka-flush"), least=5),
        Bound("commits per fdatasync", statistics.median(per_sync), "", least=100),
        Bound("p99 of a commit, to p99 of fdatasync",
              statistics.median(each["ringgate"]["p99"] / sync["p99"] for each, sync in zip(turns, synced)), most=3),
    ]
    session.note(f"{members} members in {groups} groups, one partition a commit. Commits per fdatasync are those of "
                 "`ringgate_commit_records_total` to `ringgate_commit_batches_total`: a batch is one write and one fdatasync. "
                 f"fdatasync by itself: {SYNCED_BYTES >> 10} KiB appended and synced again and again in the gateway's directory, "
                 "right before each of its runs.")


def cpu(session: Session) -> None:
    """The same commits at the same rate; Kafka acknowledges before the disk has them, the gateway after."""
    rate = 500 if session.quick else 4_000
    storm = ["--groups", "10", "--members", "10" if session.quick else "100", "--rate", str(rate),
             "--duration", session.seconds(10)]
    targets = {name: session.start(name, *options) for name, options in {
        "ringgate": ["--initial-rebalance-delay", "0"], "kafka": [], "kfake": [],
    }.items()}

    warmed: set[str] = set()

    def measure(name: str) -> dict[str, float]:
        server = targets[name]
        warmup = session.seconds(2, 1) if name in warmed else session.seconds(30, 1)
        warmed.add(name)
        run = session.bench(name, "commit-storm", *storm, "--warmup", warmup, address=server.bootstrap, pid=server.pid)
        return {"cpu": run.server("cpu_us_per_request"), "p99": run.percentile("commit.rt", "99")}

    turns = session.in_turns({name: lambda name=name: measure(name) for name in targets})
    session.outcome.columns = [f"{name} {what}" for what in ("CPU us", "p99, ms") for name in targets]
    session.outcome.rounds = [[*(number(each[name]["cpu"]) for name in targets),
                               *(number(each[name]["p99"] * 1e3) for name in targets)] for each in turns]
    per_commit = [{name: each[name]["cpu"] for name in targets} for each in turns]
    session.outcome.bounds = [
        Bound("server CPU per commit, to Kafka's default", median_ratio(per_commit, "ringgate", "kafka"), most=0.5),
        Bound("server CPU per commit, to kfake", median_ratio(per_commit, "ringgate", "kfake")),
    ]
    session.note(f"{rate:,} commits/s of 1,000 members in 10 groups, one partition each; 30 s of warm-up before each server's "
                 "first run, for the JVM's compilers." if not session.quick else "A quick run.")


def commit_counters(admin: str) -> dict[str, float]:
    """Commits and the batches that they were written in, of all shards."""
    with urllib.request.urlopen(f"http://{admin}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for short in ("batches", "records"):
        name = f"ringgate_commit_{short}_total{{"
        found[short] = sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))
    return found


def sync_seconds(directory: pathlib.Path, count: int) -> dict[str, float]:
    """Percentiles of a write and its fdatasync at the end of a file of that directory, in seconds."""
    file = directory / "fdatasync"
    data = os.urandom(SYNCED_BYTES)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            os.write(descriptor, data)
            os.fdatasync(descriptor)
            taken.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
        file.unlink()
    taken.sort()
    return {"p50": taken[len(taken) // 2], "p99": taken[len(taken) * 99 // 100]}
