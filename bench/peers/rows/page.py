"""docs/PERFORMANCE.md, whole, from the outcomes that are kept."""

import datetime

from servers.kinds import SERVERS

from .outcome import Outcome
from .table import ROWS, Row

BUSY = 1.0

HEAD = """# Performance

What ringgate holds itself to, and what came of it. This page is written by `just peers`; no row is left out. Ratios are
medians of rounds in which both sides were measured one after the other, in turns forwards and backwards, in one go on one
machine. Absolute numbers say little beyond it: it is small, virtual, and the load generator shares its CPUs.
"""

DIFFERENCES = """## What the servers do differently

Durability above all. A number of one column is worth what stands here for it.

| server | version | what it is | when it acknowledges |
| --- | --- | --- | --- |
"""

MORE_DIFFERENCES = """
- Kafka runs with its own defaults on one node, but for a heap of 1 GiB, no initial rebalance delay and logs from WARN up,
  which spares it the lines that it writes by default for every rebalance. With `log.flush.interval.messages=1` it syncs
  each append to a partition, which is a batch, not a record. There is no second replica on either side: Kafka's usual
  answer to a lost disk or machine is replication, which one node has none of, and neither has ringgate's embedded store.
- kfake is made to test clients. It parses and keeps everything, writes nothing, and does not grow old: it shows what a
  coordinator without a disk costs.
- ringgate keeps one copy on one disk. Its `fdatasync` is shared by what arrived while the last one ran.
- Everything speaks over loopback, in plain text: no network card, no TLS.
"""


def written(outcomes: dict[str, Outcome], machine: dict[str, str], remark: str) -> str:
    parts = [HEAD, _machine(outcomes, machine), *([f"{remark}\n"] if remark else []), _summary(outcomes), _differences(outcomes)]
    parts += [_section(row, outcomes.get(row.name)) for row in ROWS]
    parts.append(AGAIN)
    return "\n".join(parts)


AGAIN = """## Measuring again

`just peers` runs everything, in under an hour; `just peers --only start,hop` some rows, `--quick` each of them for a moment, to
see that they run. Outcomes are kept, and rows that have one are not run again by `--missing`; the page is always written
from all that is there. Every run's `result.json` and `report.html` stay in the results directory
(`~/.cache/ringgate-peers/results`). [bench/peers](../bench/peers) says how the servers are installed.
"""


def _machine(outcomes: dict[str, Outcome], machine: dict[str, str]) -> str:
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in machine.items())]
    began = sorted(outcome.began for outcome in outcomes.values() if outcome.began)
    if began:
        first, last = (datetime.datetime.fromisoformat(each).strftime("%Y-%m-%d %H:%M") for each in (began[0], began[-1]))
        lines.append(f"| Measured | {first} to {last} UTC |")
    busy = [f"{row.name} ({outcomes[row.name].load_before:.1f})" for row in ROWS
            if row.name in outcomes and outcomes[row.name].load_before > BUSY]
    text = "\n".join(lines) + "\n"
    if busy:
        text += ("\nThe machine may not have been quiet: before these rows its load (mean of a minute, in which the row before "
                 f"counts) was over {BUSY:g}: {', '.join(busy)}.\n")
    if quick := [row.name for row in ROWS if row.name in outcomes and outcomes[row.name].quick]:
        text += f"\n**Quick runs, which show that a row can be measured and no more: {', '.join(quick)}.**\n"
    return text


def _summary(outcomes: dict[str, Outcome]) -> str:
    lines = ["## The rows", "", "| row | what | target | measured | |", "| --- | --- | --- | --- | --- |"]
    for row in ROWS:
        outcome = outcomes.get(row.name)
        link = f"[{row.name}](#{row.name})"
        if outcome is None:
            lines.append(f"| {link} | {row.what} | {row.target} | - | not measured: not run |")
            continue
        for bound in outcome.bounds:
            lines.append(f"| {link} | {bound.what} | {bound.target()} | {bound.value()} | {bound.verdict()}"
                         f"{' (generator at its limits)' if outcome.invalid else ''} |")
        for reason in outcome.not_measured:
            what, _, _ = reason.partition(":")
            lines.append(f"| {link} | {what if outcome.bounds else row.what} | {row.target} | - | **not measured**, see below |")
    held = [bound.holds() for outcome in outcomes.values() for bound in outcome.bounds if bound.holds() is not None]
    lines += ["", f"Of {len(held)} bounds that were measured {sum(held)} hold."]
    return "\n".join(lines) + "\n"


def _differences(outcomes: dict[str, Outcome]) -> str:
    versions = {name: version for outcome in outcomes.values() for name, version in outcome.versions.items()}
    lines = [f"| {name} | {versions[name]} | {SERVERS[name].about} | {SERVERS[name].durability} |"
             for name in SERVERS if name in versions]
    return DIFFERENCES + "\n".join(lines) + "\n" + MORE_DIFFERENCES


def _section(row: Row, outcome: Outcome | None) -> str:
    against = f" against {row.against}" if row.against else ""
    lines = [f"## {row.name}", "", f"{row.what}{against}: {row.target}.", ""]
    if outcome is None:
        return "\n".join([*lines, "**Not measured**: the row was not run.", ""])
    for reason in outcome.not_measured:
        lines += [f"**Not measured**: {reason}.", ""]
    for bound in outcome.bounds:
        target = f" ({bound.target()}: {bound.verdict()})" if bound.holds() is not None else ""
        lines.append(f"- {bound.what}: {bound.value()}{target}")
    if outcome.bounds:
        lines.append("")
    if outcome.rounds:
        lines += ["| " + " | ".join(outcome.columns) + " |", "| --- " * len(outcome.columns) + "|"]
        lines += ["| " + " | ".join(cells) + " |" for cells in outcome.rounds]
        lines.append("")
    for note in outcome.notes:
        lines += [note.rstrip(".") + ".", ""]
    if outcome.invalid:
        lines += [f"In {len(outcome.invalid)} runs the generator was at its own limits, so that their numbers describe it, too. The "
                  f"first of them: {outcome.invalid[0]}.", ""]
    if outcome.commands:
        lines += ["```sh", *outcome.commands, "```", ""]
    return "\n".join(lines)
