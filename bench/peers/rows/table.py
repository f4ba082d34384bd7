"""The rows of DESIGN, in its order."""

import dataclasses
from collections.abc import Callable

from . import commits, groups, heartbeats, iggy, own, records
from .session import Session


@dataclasses.dataclass(frozen=True)
class Row:
    """`what` against `against`, to come to `target`: as DESIGN has it."""
    name: str
    what: str
    against: str
    target: str
    measure: Callable[[Session], None]


ROWS = [
    Row("heartbeat-latency", "Heartbeat round trip p50, one connection", "echo", "<= 1.3x", heartbeats.latency),
    Row("heartbeat-cpu", "Server CPU per Heartbeat, 64 connections x 16 in flight", "echo", "<= 1.7x", heartbeats.cpu),
    Row("durable-commits", "Durable commits/s, 1,000 members, one in flight each", "Kafka 4.x with flush per message",
        ">= 5x, and >= 100 commits per `fdatasync`, p99 <= 3x `fdatasync` p99", commits.durable),
    Row("commit-cpu", "Server CPU per commit", "Kafka 4.x default", "<= 0.5x", commits.cpu),
    Row("produce-cpu", "Server CPU per MB produced (1 KiB records, 16 KiB batches, acks=1), after 60 s warm-up",
        "Kafka 4.x", "<= 0.5x", records.produce_cpu),
    Row("fetch-cpu", "Server CPU per MB fetched from the tail (1 MiB answers)", "a send loop of the same bytes", "<= 1.4x",
        own.fetch_cpu),
    Row("end-to-end", "Produce-to-consume p99 at 25 % of Kafka's peak; also acks=all against Kafka with flush", "Kafka 4.x",
        "<= 0.33x", records.end_to_end),
    Row("large-group", "1,000-member group: last join to all synced, delay 0",
        "Kafka 4.x; two echo rounds of equal bytes + one `fdatasync`", "<= 0.5x; <= 2x", groups.rebalance),
    Row("slices", "No slice on a shard while a 10,000-member group rebalances", "thread CPU time", "<= 1 ms", own.slices),
    Row("memory", "RSS slope per member / idle connection (three plateaus, kernel memory apart)", "",
        "<= 2 KiB + its bytes / <= 8 KiB", groups.memory),
    Row("hop", "Cross-shard hop added to a Heartbeat p50", "wake-up pair", "<= 1.3x; with `--spin 50us` <= 25 us", own.hop),
    Row("instructions", "Instructions per request, 1 vs 2 shards", "", "within 5 %", heartbeats.instructions),
    Row("start", "Start after a clean stop, 10,000 groups, 1,000 partitions", "", "< 1 s", own.start),
    Row("iggy", "Iggy store: gateway CPU per MB, added latency at 20 % load", "the SDK alone", "measured first, then set",
        iggy.store),
]
