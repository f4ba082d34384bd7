"""The row of the Iggy store, whose server is a second ringgate's Iggy listener."""

import json
import secrets
import subprocess

from .outcome import Bound, median_ratio, number
from .session import RUN_SECONDS_MAX, CannotMeasure, Session

PARTITIONS = 4
BATCH_RECORDS = 16


def store(session: Session) -> None:
    """The same records by a gateway on the Iggy store, and by the SDK itself, to one server."""
    password = secrets.token_hex(16)
    server = session.start("ringgate-2", "--iggy-listen", "127.0.0.1:0", "--iggy-root-password", password, "--shards", "1",
                           "--cpus", "none")
    gateway = session.start("ringgate", "--store", f"iggy://{server.details['iggy']}", "--iggy-password", password,
                            "--shards", "1", "--cpus", "none", "--initial-rebalance-delay", "0")
    session.outcome.commands = [command.replace(password, "WORD") for command in session.outcome.commands]
    # As many batches are full, whatever their records and headers take besides.
    batches = ["--record-bytes", "1024", "--batch-records", str(BATCH_RECORDS), "--acks", "all", "--idempotent", "no",
               "--partitions", str(PARTITIONS)]

    def produce(name: str, *load: str):
        return session.bench(name, "produce", *batches, *load, "--duration", session.seconds(10),
                             "--warmup", session.seconds(5, 1), address=gateway.bootstrap, pid=gateway.pid)

    peak = produce("peak", "--closed", "--connections", "4").value("records_per_s")
    rate = max(int(peak / 5), 100)

    def by_gateway() -> dict[str, float]:
        run = produce("ringgate", "--rate", str(rate))
        return {"cpu": run.server("cpu_ms_per_mb"), "p50": run.percentile("request.rt", "50"),
                "p99": run.percentile("request.rt", "99")}

    def by_sdk() -> dict[str, float]:
        command = ["iggy_sdk", "--server", server.details["iggy"], "--password", password, "--rate", str(rate),
                   "--seconds", session.seconds(10)[:-1], "--warmup", session.seconds(5, 1)[:-1],
                   "--batch", str(BATCH_RECORDS), "--partitions", str(PARTITIONS)]
        done = subprocess.run([str(session.tool("iggy_sdk")), *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=RUN_SECONDS_MAX)
        session.note_command(" ".join(command).replace(password, "WORD"))
        if done.returncode != 0:
            raise CannotMeasure(f"iggy_sdk ended with {done.returncode}: {done.stderr[-300:]}")
        told = json.loads(done.stdout)
        return {"cpu": told["cpu_ms_per_mb"], "p50": told["p50_ns"] / 1e9, "p99": told["p99_ns"] / 1e9}

    turns = session.in_turns({"ringgate": by_gateway, "sdk": by_sdk})
    session.outcome.columns = ["gateway, CPU ms per MB", "SDK, CPU ms per MB", "gateway p50, ms", "SDK p50, ms",
                               "gateway p99, ms", "SDK p99, ms"]
    session.outcome.rounds = [
        [*(number(each[who]["cpu"]) for who in ("ringgate", "sdk")),
         *(number(each[who][which] * 1e3) for which in ("p50", "p99") for who in ("ringgate", "sdk"))] for each in turns]

    def added(which: str) -> float:
        middle = sorted(each["ringgate"][which] - each["sdk"][which] for each in turns)
        return middle[len(middle) // 2] * 1e3

    session.outcome.bounds = [
        Bound("gateway CPU per MB, to the SDK alone",
              median_ratio([{who: each[who]["cpu"] for who in each} for each in turns], "ringgate", "sdk")),
        Bound("added to p50 of an acknowledgement at 20 % load", added("p50"), "ms"),
        Bound("added to p99 of an acknowledgement at 20 % load", added("p99"), "ms"),
    ]
    session.note(f"{rate:,} records/s of 1 KiB, {BATCH_RECORDS} to a batch, over {PARTITIONS} partitions, acks=all: a fifth of "
                 f"the {peak:,.0f} that the gateway takes in a closed loop. The server behind both is a second ringgate's Iggy "
                 "listener, the only server of this protocol that there is, and it syncs each batch before it answers. The "
                 "SDK sends plain messages (`shards/examples/iggy_sdk.rs`); the gateway's have the header that marks Kafka's. "
                 "DESIGN sets no number yet: these are the first.")
