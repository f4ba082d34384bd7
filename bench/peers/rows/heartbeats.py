"""Rows of the cheapest request: a Heartbeat against the echo of a frame."""

from .outcome import Bound, median_ratio, number
from .session import Run, Session

# A Heartbeat v4 of the load generator's and its answer, in bytes after the length.
HEARTBEAT_REQUEST_BYTES, HEARTBEAT_RESPONSE_BYTES = "120", "16"


def latency(session: Session) -> None:
    """One connection, one request at a time; server and generator on a CPU of their own each."""
    gateway = session.start("ringgate", "--shards", "1", "--cpus", "0", "--initial-rebalance-delay", "0")
    echo, echo_pid = session.start_tool("echo", "--shards", "1", "--cpus", "0")
    length = ["--closed", "--cpus", "1", "--duration", session.seconds(8), "--warmup", session.seconds(2, 1)]

    def heartbeat() -> dict[str, float]:
        run = session.bench("ringgate", "fleet", "--groups", "1", "--members", "1", *length,
                            address=gateway.bootstrap, pid=gateway.pid)
        return {"p50": run.percentile("heartbeat.rt", "50"), "p99": run.percentile("heartbeat.rt", "99")}

    def floor() -> dict[str, float]:
        run = _floor(session, echo, echo_pid, "--connections", "1", "--in-flight", "1", *length)
        return {"p50": run.percentile("floor.rt", "50"), "p99": run.percentile("floor.rt", "99")}

    turns = session.in_turns({"ringgate": heartbeat, "echo": floor}, full=5)
    session.outcome.columns = ["ringgate p50, us", "echo p50, us", "ringgate p99, us", "echo p99, us"]
    session.outcome.rounds = [[number(each[who][which] * 1e6) for which in ("p50", "p99") for who in ("ringgate", "echo")]
                              for each in turns]
    ratio = median_ratio([{who: each[who]["p50"] for who in each} for each in turns], "ringgate", "echo")
    session.outcome.bounds = [Bound("p50 of a Heartbeat, to that of the echo", ratio, most=1.3)]


def cpu(session: Session) -> None:
    """64 connections with 16 requests in flight each."""
    gateway = session.start("ringgate", "--shards", "1", "--cpus", "0", "--initial-rebalance-delay", "0")
    echo, echo_pid = session.start_tool("echo", "--shards", "1", "--cpus", "0")
    length = ["--closed", "--cpus", "1", "--duration", session.seconds(8), "--warmup", session.seconds(2, 1)]

    def heartbeats() -> dict[str, float]:
        run = session.bench("ringgate", "fleet", "--groups", "64", "--members", "16", "--shared-conn", "64", *length,
                            address=gateway.bootstrap, pid=gateway.pid)
        return _cpu_and_rate(run)

    def floor() -> dict[str, float]:
        return _cpu_and_rate(_floor(session, echo, echo_pid, "--connections", "64", "--in-flight", "16", *length))

    turns = session.in_turns({"ringgate": heartbeats, "echo": floor})
    session.outcome.columns = ["ringgate, CPU us", "echo, CPU us", "ringgate, per s", "echo, per s"]
    session.outcome.rounds = [[number(each[who][which]) for which in ("cpu", "rate") for who in ("ringgate", "echo")]
                              for each in turns]
    ratio = median_ratio([{who: each[who]["cpu"] for who in each} for each in turns], "ringgate", "echo")
    session.outcome.bounds = [Bound("server CPU per Heartbeat, to that of the echo", ratio, most=1.7)]


def instructions(session: Session) -> None:
    """No counter of instructions can be had, so what stands in for it is CPU time."""
    session.outcome.not_measured.append(
        "instructions: this machine's hypervisor shows no counter of them (`perf stat -e instructions`: not supported), "
        "and under Valgrind 3.19 the gateway does not start, since Valgrind holds its one lock while a thread waits in "
        "io_uring. CPU time per Heartbeat is told in their place; it is not held to the bound, which is finer than what "
        "it varies by from run to run")
    length = ["--closed", "--duration", session.seconds(6), "--warmup", session.seconds(2, 1)]
    servers = {}
    for shards, name in ((1, "ringgate"), (2, "ringgate-2")):
        servers[shards] = session.start(name, "--shards", str(shards), "--cpus", "none", "--initial-rebalance-delay", "0")

    def heartbeats(shards: int) -> dict[str, float]:
        server = servers[shards]
        run = session.bench(f"{shards}-shards", "fleet", "--groups", "64", "--members", "4", *length,
                            address=server.bootstrap, pid=server.pid)
        return _cpu_and_rate(run)

    turns = session.in_turns({"1": lambda: heartbeats(1), "2": lambda: heartbeats(2)})
    session.outcome.columns = ["1 shard, CPU us", "2 shards, CPU us", "1 shard, per s", "2 shards, per s"]
    session.outcome.rounds = [[number(each[who][which]) for which in ("cpu", "rate") for who in ("1", "2")]
                              for each in turns]
    ratio = median_ratio([{who: each[who]["cpu"] for who in each} for each in turns], "2", "1")
    session.outcome.bounds = [Bound("CPU time per Heartbeat with 2 shards, to 1", ratio)]
    session.note("Each member on a connection of its own, one Heartbeat in flight: members walk to the shard that owns their "
                 "group, so that no request crosses. Both shards and the generator share two CPUs.")


def _floor(session: Session, address: str, pid: int, *arguments: str) -> Run:
    return session.bench("echo", "floor", "--request-bytes", HEARTBEAT_REQUEST_BYTES,
                         "--response-bytes", HEARTBEAT_REQUEST_BYTES, *arguments, address=address, pid=pid)


def _cpu_and_rate(run: Run) -> dict[str, float]:
    return {"cpu": run.server("cpu_us_per_request"), "rate": run.value("rate")}
