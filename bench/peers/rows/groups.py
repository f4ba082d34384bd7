"""The row of one large group, and those of memory."""

import pathlib
import statistics

from .commits import sync_seconds
from .outcome import Bound, median_ratio, number
from .session import CannotMeasure, Session


# What a member of the load generator's says of itself and is given: ids, protocol, subscription, assignment.
MEMBER_BYTES = 150


def rebalance(session: Session) -> None:
    """Each member on a connection of its own, and no delay for the first of them."""
    members = "100" if session.quick else "1000"
    group = ["--groups", "1", "--members", members, "--topics", "1", "--partitions", members, "--join-rate", "100000/s",
             "--hb-interval", "3s", "--duration", session.seconds(6, 3), "--warmup", "0s"]
    gateway = session.start("ringgate", "--initial-rebalance-delay", "0")
    targets = {"ringgate": gateway, "kafka": session.start("kafka"), "kfake": session.start("kfake")}
    echo, echo_pid = session.start_tool("echo", "--shards", "2", "--cpus", "none")
    # What a member's join and sync take on the wire, each way.
    frame_bytes = "300"

    def measure(name: str) -> dict[str, float]:
        server = targets[name]
        run = session.bench(name, "fleet", *group, address=server.bootstrap, pid=server.pid)
        return {"synced": run.percentile("settle", "50")}

    def floor() -> dict[str, float]:
        run = session.bench("echo", "floor", "--request-bytes", frame_bytes, "--response-bytes", frame_bytes,
                            "--connections", members, "--in-flight", "1", "--closed", "--duration", session.seconds(3),
                            "--warmup", session.seconds(1), address=echo, pid=echo_pid)
        sync = sync_seconds(pathlib.Path(gateway.home), 300)
        return {"synced": 2 * int(members) / run.value("rate") + sync["p50"]}

    sides = {name: lambda name=name: measure(name) for name in targets} | {"echo": floor}
    turns = session.in_turns(sides)
    session.outcome.columns = [f"{name}, ms" for name in targets] + ["two echo rounds and a sync, ms"]
    session.outcome.rounds = [[number(each[name]["synced"] * 1e3) for name in sides] for each in turns]
    taken = [{name: each[name]["synced"] for name in sides} for each in turns]
    session.outcome.bounds = [
        Bound("last join to all synced, to Kafka", median_ratio(taken, "ringgate", "kafka"), most=0.5),
        Bound("last join to all synced, to two echo rounds and an fdatasync", median_ratio(taken, "ringgate", "echo"), most=2),
        Bound("last join to all synced, to kfake", median_ratio(taken, "ringgate", "kfake")),
    ]
    session.note("From the moment that the last member sent its last JoinGroup to the moment that all hold an assignment of one "
                 "generation (the series `settle`). Without a delay the first member is alone in a generation of its own until "
                 "its next request tells it of the others, so that its own join is often the last.")
    session.note(f"{members} members of one group, {members} partitions, the classic protocol. An echo round is {members} "
                 f"connections with a frame of {frame_bytes} bytes each, there and back.")


def memory(session: Session) -> None:
    """By three plateaus each; a member by what it takes beyond the connection that it has."""
    plateaus = [200, 400, 600] if session.quick else [2000, 5000, 8000]
    groups = 20 if session.quick else 100
    gateway = session.start("ringgate", "--initial-rebalance-delay", "0")
    run = session.bench("ringgate", "idle", "--connections", str(plateaus[-1]), "--plateaus", "3",
                        "--duration", session.seconds(12, 4), "--warmup", "0s", address=gateway.bootstrap, pid=gateway.pid)
    connection = run.value("rss_per_conn")
    session.outcome.bounds.append(Bound("RSS per idle connection", connection / 1024, "KiB", most=8))
    if run.has("kernel_per_conn"):
        session.outcome.bounds.append(Bound("of the kernel's besides", run.value("kernel_per_conn") / 1024, "KiB"))
    session.stop("ringgate")

    resident = []
    for members in plateaus:
        gateway = session.start("ringgate", "--initial-rebalance-delay", "0")
        # Joins take 8 s at the highest plateau; they are over long before the end, at which memory is read.
        run = session.bench(f"{members}-members", "fleet", "--groups", str(groups), "--members", str(members // groups),
                            "--join-rate", "1000/s", "--hb-interval", "3s", "--duration", session.seconds(20, 5),
                            "--warmup", "0s", address=gateway.bootstrap, pid=gateway.pid)
        if run.value("groups_stable") < groups:
            raise CannotMeasure(f"of {groups} groups only {run.value('groups_stable'):g} were stable at the end")
        resident.append(run.server("rss_end_bytes"))
        session.stop("ringgate")
    both = statistics.linear_regression(plateaus, resident).slope
    session.outcome.columns = ["members, each with a connection", "RSS, MiB"]
    session.outcome.rounds = [[str(members), number(bytes_ / (1 << 20))] for members, bytes_ in zip(plateaus, resident)]
    session.outcome.bounds += [
        Bound("RSS per member, without its connection", (both - connection) / 1024, "KiB", most=2 + MEMBER_BYTES / 1024),
        Bound("RSS per member and its connection", both / 1024, "KiB"),
    ]
    session.note("An idle connection has asked for ApiVersions; its slope is that of three plateaus of one gateway.")
    session.note(f"Members are of {groups} groups, each on a connection of its own and with a heartbeat every 3 s; a gateway is "
                 "started anew for each plateau, and its memory read when the last group has long been stable. What a member "
                 "takes is that slope less the idle connection's of the same row. It has the bytes that a member says of "
                 f"itself and is given, about {MEMBER_BYTES}, which the bound allows on top.")
