"""Rows that need no load generator: raw frames, or the repository's own tools."""

import json
import pathlib
import re
import statistics
import subprocess
import time

from servers import frames
from servers.frames import Connection
from servers.kinds import ROOT, SERVERS

from .outcome import Bound, median_ratio, number
from .session import CannotMeasure, Session, cpu_seconds

MIB = 1 << 20
# Their topics hold less than a shard's tail cache (64 MiB), so that no Fetch reads the disk.
TAIL_BATCHES = 48 * 64
BATCH_RECORDS = 16
# 16 KiB with what a batch and its records need besides.
RECORD_BYTES = 1_010


def fetch_cpu(session: Session) -> None:
    """The same client reads 1 MiB answers of the gateway's, and frames of as many bytes of a loop that only sends."""
    gateway = session.start("ringgate", "--shards", "1", "--cpus", "none")
    batch = frames.batch(BATCH_RECORDS, RECORD_BYTES)
    per_answer = MIB // len(batch)
    with Connection(gateway.bootstrap) as filler:
        frames.create_topic(filler, "tail", 1)
        for _ in range(TAIL_BATCHES // 16):
            for _ in range(16):
                filler.socket.sendall(frames.request(frames.PRODUCE, 3, frames.produce_body("tail", 0, batch, 1)))
            for _ in range(16):
                frames.check_produced(filler.answer())
    requests = [
        frames.request(frames.FETCH, 4, frames.fetch_body("tail", 0, at * per_answer * BATCH_RECORDS, per_answer * len(batch)))
        for at in range(TAIL_BATCHES // per_answer)
    ]
    with Connection(gateway.bootstrap) as connection:
        connection.socket.sendall(requests[0])
        # Without the length in front, as the echo counts.
        answer_bytes = len(connection.answer().data) + 4
    if answer_bytes < per_answer * len(batch):
        raise CannotMeasure(f"an answer has {answer_bytes} bytes rather than {per_answer * len(batch)}")
    address, sender = session.start_tool("echo", "--shards", "1", "--cpus", "none", "--answer", str(answer_bytes),
                                        "--answers", str(len(requests)))
    seconds = 2 if session.quick else 8

    def turn(address: str, pid: int) -> dict[str, float]:
        with Connection(address) as connection:
            before, began, answers = cpu_seconds(pid), time.monotonic(), 0
            while time.monotonic() - began < seconds:
                answers += _read_answers(connection, requests, answer_bytes)
            megabytes = answers * answer_bytes / 1e6
            return {"ms per MB": (cpu_seconds(pid) - before) * 1e3 / megabytes,
                    "MB/s": megabytes / (time.monotonic() - began)}

    turns = session.in_turns({"ringgate": lambda: turn(gateway.bootstrap, gateway.pid),
                              "send loop": lambda: turn(address, sender)})
    session.outcome.columns = ["ringgate, CPU ms per MB", "send loop, CPU ms per MB", "ringgate MB/s", "send loop MB/s"]
    session.outcome.rounds = [[number(each[who][what]) for what in ("ms per MB", "MB/s") for who in ("ringgate", "send loop")]
                              for each in turns]
    ratio = median_ratio([{who: each[who]["ms per MB"] for who in each} for each in turns], "ringgate", "send loop")
    session.outcome.bounds = [Bound("server CPU per MB fetched, to that of the send loop", ratio, most=1.4)]
    session.note(f"One connection reads, one answer of {answer_bytes} bytes at a time: {per_answer} batches of {len(batch)} bytes "
                 f"from the tail cache, by Fetch v4 in raw frames; the send loop (`echo --answer`) answers the same requests "
                 f"with frames of as many bytes, {len(requests)} in turn, so that both send from {len(requests) * answer_bytes >> 20} MiB "
                 "of memory.")


def _read_answers(connection: Connection, requests: list[bytes], answer_bytes: int) -> int:
    """Sends each request and takes its answer; they are held to their size, and not looked at."""
    into = memoryview(bytearray(4 + answer_bytes))
    for request in requests:
        connection.socket.sendall(request)
        have = 0
        while have < len(into):
            got = connection.socket.recv_into(into[have:])
            if got == 0:
                raise ConnectionResetError("it closed the connection")
            have += got
        if int.from_bytes(into[:4], "big") != answer_bytes:
            raise CannotMeasure("an answer of another size")
    return len(requests)


def hop(session: Session) -> None:
    """One member's heartbeats by a connection of the shard that owns the group, and by one of the other."""
    for spin in (0, 50):
        options = ["--shards", "2", *(["--spin", f"{spin}us"] if spin else [])]
        gateway = session.start("ringgate", *options, "--initial-rebalance-delay", "0")
        listener = json.loads((pathlib.Path(gateway.home) / "ready.json").read_text())["listeners"][0]
        count = 2_000 if session.quick else 20_000
        turns = []
        for turn in range(session.rounds()):
            # A group of its own: the member of the round before is still one of its group.
            added, own = _added_by_hop(listener["nodes"], f"hop-{turn}", count)
            pair = subprocess.run([session.tool("wake_pair"), "--spin", str(spin), "--pairs", str(count)],
                                  stdout=subprocess.PIPE, check=True, text=True)
            turns.append((added, own, json.loads(pair.stdout)["p50_ns"] / 1e9))
        session.stop("ringgate")
        session.note_command(f"wake_pair --spin {spin} --pairs {count}")
        session.outcome.columns = ["spin", "own shard p50, us", "added by the hop, us", "pair of wake-ups p50, us"]
        session.outcome.rounds += [[f"{spin} us", *(number(each * 1e6) for each in (own, added, pair))]
                                   for added, own, pair in turns]
        if spin:
            session.outcome.bounds.append(Bound(f"added to p50 with `--spin {spin}us`",
                                                statistics.median(added for added, _, _ in turns) * 1e6, "us", most=25))
        else:
            session.outcome.bounds.append(Bound("added to p50, to a pair of wake-ups",
                                                statistics.median(added / pair for added, _, pair in turns), most=1.3))
    session.note("A heartbeat at a time from raw frames, in turns by a connection of the owner's port and by one of the other "
                 "shard's; what the client itself takes is in both and falls out of the difference. The pair of wake-ups is what "
                 "`ringgate doctor --selftest` times, too. "
                 "The client runs on the same two CPUs as the two shards.")


def _added_by_hop(nodes: list[dict], group: str, count: int) -> tuple[float, float]:
    """Added to the p50 by a hop, and the p50 without, in seconds."""
    with Connection(nodes[0]["addr"]) as first, Connection(nodes[1]["addr"]) as second:
        generation, member = frames.joined(first.call(frames.JOIN_GROUP, 3,
                                                      frames.join_body(group, "", frames.subscription("hop"))))
        synced = first.call(frames.SYNC_GROUP, 2, frames.sync_body(group, generation, member, b"\0\0"))
        synced.number("i")
        synced.check("SyncGroup")
        answer = first.call(frames.FIND_COORDINATOR, 1, frames.string(group) + b"\0")
        answer.number("i")
        answer.check("FindCoordinator")
        answer.string()
        owner = answer.number("i")
        connections = {node["id"] == owner: connection for node, connection in zip(nodes, (first, second))}
        heartbeat = frames.heartbeat_body(group, generation, member)
        taken: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(2 * count):
            own = turn // 100 % 2 == 0
            began = time.perf_counter()
            answer = connections[own].call(frames.HEARTBEAT, 2, heartbeat)
            taken[own].append(time.perf_counter() - began)
            answer.number("i")
            answer.check("Heartbeat")
    own = statistics.median(taken[True])
    return statistics.median(taken[False]) - own, own


def start(session: Session) -> None:
    """Makes the groups and partitions, stops in order, and times starts until it serves."""
    groups, partitions = (1_000, 100) if session.quick else (10_000, 1_000)
    options = ["--initial-rebalance-delay", "0"]
    gateway = session.start("ringgate", *options)
    with Connection(gateway.bootstrap) as connection:
        frames.create_topic(connection, "many", partitions)
        made = 0
        while made < groups:
            names = [f"group-{n}" for n in range(made, min(made + 16, groups))]
            _make_groups(connection, names)
            made += len(names)
    taken = []
    for _ in range(session.rounds(5)):
        gateway = session.restart("ringgate", *options)
        taken.append(gateway.ready_seconds)
    with Connection(gateway.bootstrap) as connection:
        answer = connection.call(frames.LIST_GROUPS, 0, b"")
        answer.check("ListGroups")
        if (there := answer.number("i")) != groups:
            raise CannotMeasure(f"after the start there are {there} groups of {groups}")
    session.outcome.columns = ["start to first full answer, ms"]
    session.outcome.rounds = [[number(each * 1e3)] for each in taken]
    session.outcome.bounds = [Bound("start to first full answer, median", statistics.median(taken), "s", most=1)]
    session.note(f"{groups:,} groups with one member and one committed offset each, {partitions:,} partitions of one topic; from "
                 "the start of the process to its answer to ApiVersions, Metadata and FindCoordinator; asked every 20 ms.")


def _make_groups(connection: Connection, names: list[str]) -> None:
    """One member each, in a stable group with a committed offset."""
    for name in names:
        connection.socket.sendall(frames.request(frames.JOIN_GROUP, 3,
                                                 frames.join_body(name, "", frames.subscription("many"))))
    members = [(name, *frames.joined(connection.answer())) for name in names]
    for key, version, body in [
        (frames.SYNC_GROUP, 2, lambda name, generation, member: frames.sync_body(name, generation, member, b"\0\0")),
        (frames.OFFSET_COMMIT, 2,
         lambda name, generation, member: frames.commit_body(name, generation, member, "many", 0, 1)),
    ]:
        for each in members:
            connection.socket.sendall(frames.request(key, version, body(*each)))
        for _ in members:
            answer = connection.answer()
            if key == frames.SYNC_GROUP:
                answer.number("i")
                answer.check("SyncGroup")
            elif answer.data[-2:] != b"\0\0":
                raise CannotMeasure("OffsetCommit is answered with an error")


def slices(session: Session) -> None:
    """`just slices`: a release gateway with the test's large group."""
    members = 500 if session.quick else 9_500
    command = ["cargo", "test", "--quiet", "--test", "hardening", "large_groups", "--", "--nocapture"]
    environment = {"RINGGATE_TEST_MEMBERS": str(members), "RINGGATE_TEST_BINARY": str(SERVERS["ringgate"].binary())}
    session.note_command("just slices")
    longest, over, counted = [], [], []
    for _ in range(session.rounds()):
        assignments = [f"{name}={value}" for name, value in environment.items()]
        done = subprocess.run(["env", *assignments, "bash", "-c", 'ulimit -n $(ulimit -Hn); exec "$@"', "bash", *command],
                              cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        (session.directory / f"slices-{len(longest)}.log").write_text(done.stdout)
        if done.returncode != 0:
            raise CannotMeasure(f"the test ended with {done.returncode}: {done.stdout[-400:]}")
        # It prints them three times; the last has everything.
        maxima = re.findall(r'^ringgate_slice_seconds_max\{[^}]*task="([^"]*)"\} (\S+)', done.stdout, re.MULTILINE)
        most: dict[str, float] = {}
        for task, value in maxima:
            most[task] = max(most.get(task, 0), float(value))
        within = re.findall(r'^ringgate_slice_seconds_bucket\{[^}]*le="0.001"\} (\d+)', done.stdout, re.MULTILINE)
        all_of = re.findall(r"^ringgate_slice_seconds_count\S* (\d+)", done.stdout, re.MULTILINE)
        task, value = max(most.items(), key=lambda pair: pair[1])
        longest.append(value)
        over.append(int(all_of[-1]) - int(within[-1]))
        counted.append(int(all_of[-1]))
        session.outcome.rounds.append([number(value * 1e3), task, str(over[-1]), f"{counted[-1]:,}"])
    session.outcome.columns = ["longest slice, ms of thread CPU time", "of which task", "slices over 1 ms", "slices"]
    session.outcome.bounds = [
        Bound(f"longest slice of {len(longest)} runs", max(longest) * 1e3, "ms", most=1),
        Bound("longest slice, median run", statistics.median(longest) * 1e3, "ms"),
        Bound("slices over 1 ms, share of all", 100 * sum(over) / sum(counted), "%"),
    ]
    session.note(f"{members:,} members on a connection each: the test holds two descriptors for each, and 20,000 is the "
                 "hard limit of this machine. One shard.")
