"""Rows of produced and consumed records."""

from .outcome import Bound, median_ratio, number
from .session import Session

BATCHES = ["--record-bytes", "1024", "--batch-bytes", "16384"]


def produce_cpu(session: Session) -> None:
    """The same records at the same rate; all servers live through the row and are warmed up once."""
    rate = 5_000 if session.quick else 30_000
    targets = {name: session.start(name, *options) for name, options in {"ringgate": [], "kafka": [], "kfake": []}.items()}
    warmed: set[str] = set()

    def measure(name: str) -> dict[str, float]:
        server = targets[name]
        warmup = session.seconds(2, 1) if name in warmed else session.seconds(60, 2)
        warmed.add(name)
        run = session.bench(name, "produce", *BATCHES, "--acks", "1", "--partitions", "4", "--rate", str(rate),
                            "--duration", session.seconds(12), "--warmup", warmup, address=server.bootstrap, pid=server.pid)
        return {"cpu": run.server("cpu_ms_per_mb"), "p99": run.percentile("produce.rt", "99"),
                "records": run.value("records_per_s") * run.result["measured_s"] / run.value("produce_requests")}

    # kfake keeps every record in memory, so that it is measured once.
    turns = session.in_turns({name: lambda name=name: measure(name) for name in ("ringgate", "kafka")})
    kfake = measure("kfake")
    session.outcome.columns = ["ringgate, CPU ms per MB", "Kafka, CPU ms per MB", "ringgate p99, ms", "Kafka p99, ms",
                               "ringgate, records per request", "Kafka, records per request"]
    session.outcome.rounds = [[*(number(each[name]["cpu"]) for name in ("ringgate", "kafka")),
                               *(number(each[name]["p99"] * 1e3) for name in ("ringgate", "kafka")),
                               *(number(each[name]["records"]) for name in ("ringgate", "kafka"))] for each in turns]
    per_mb = [{name: each[name]["cpu"] for name in each} for each in turns]
    session.outcome.bounds = [Bound("server CPU per MB produced, to Kafka", median_ratio(per_mb, "ringgate", "kafka"), most=0.5),
                              Bound("kfake, CPU per MB, one run", kfake["cpu"], "ms")]
    session.note(f"acks=1, {rate:,} records/s of 1 KiB in batches of 16 KiB over 4 partitions; 60 s of warm-up for each server's "
                 "first run. Neither waits for the disk before it answers. A request takes along what there is "
                 "for all partitions of a broker: Kafka leads all four, each of ringgate's two shards, which are nodes, two, so that "
                 "fewer records share the cost of a request.")


def end_to_end(session: Session) -> None:
    """At a quarter of what Kafka takes at most."""
    for acks, peer in (("1", "kafka"), ("all", "kafka-flush")):
        gateway, kafka = session.start("ringgate", "--initial-rebalance-delay", "0"), session.start(peer)
        peak = session.bench(f"{peer}-peak", "produce", *BATCHES, "--acks", acks, "--partitions", "4", "--closed",
                             "--connections", "4", "--duration", session.seconds(8), "--warmup", session.seconds(15, 1),
                             address=kafka.bootstrap, pid=kafka.pid).value("records_per_s")
        rate = max(int(peak / 4), 100)
        targets = {"ringgate": gateway, peer: kafka}

        def measure(name: str) -> float:
            server = targets[name]
            run = session.bench(name, "e2e", "--record-bytes", "1024", "--acks", acks, "--partitions", "4",
                                "--rate", str(rate), "--duration", session.seconds(10), "--warmup", session.seconds(5, 1),
                                address=server.bootstrap, pid=server.pid)
            return {which: run.percentile("e2e.rt", which) for which in ("50", "99")}

        turns = session.in_turns({name: lambda name=name: measure(name) for name in targets})
        session.outcome.columns = ["acks", "against", "records/s", "ringgate p99, ms", "its p99, ms", "ringgate p50, ms",
                                   "its p50, ms"]
        session.outcome.rounds += [[acks, peer, f"{rate:,}",
                                    *(number(each[name][which] * 1e3) for which in ("99", "50") for name in targets)]
                                   for each in turns]
        ratio = median_ratio([{name: each[name]["99"] for name in each} for each in turns], "ringgate", peer)
        session.outcome.bounds.append(Bound(f"p99, acks={acks}, to {peer} at a quarter of its {peak:,.0f} records/s", ratio,
                                            most=0.33))
        for name in targets:
            session.stop(name)
    session.note("Produced and consumed in one process, from the moment a record was meant to be sent. Kafka's peak is a "
                 "closed loop of 4 connections on the same machine, generator and all.")
