"""The table client x step, for a terminal and as a page of the documentation."""

import datetime

from .days import STEPS, Report

OUTCOMES = {"ok": "yes", "skip": "-", "fail": "FAIL"}


def as_text(reports: list[Report]) -> str:
    """A table for the terminal; reasons follow below it."""
    rows = [["client", "version", *STEPS, "s"]]
    for report in reports:
        rows.append([report.client, report.version, *(cell(report, step) for step in STEPS), f"{report.seconds:.0f}"])
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    for report in reports:
        if report.failure:
            lines.append(f"{report.client}: FAIL {report.failure}")
        for step in report.steps:
            if step.outcome != "ok":
                lines.append(f"{report.client}: {step.name}: {OUTCOMES[step.outcome]} {step.detail}")
    return "\n".join(lines) + "\n"


def cell(report: Report, name: str) -> str:
    step = report.step(name)
    return OUTCOMES[step.outcome] if step else "FAIL"


def as_page(reports: list[Report], shards: int, advertise: str, store: str) -> str:
    """docs/clients.md."""
    notes: list[str] = []

    def marked(report: Report, name: str) -> str:
        step = report.step(name)
        if step is None or step.outcome == "fail":
            return "**no**"
        if step.outcome == "ok":
            return "yes"
        notes.append(f"{report.client}, {name}: {step.detail}")
        return f"[{len(notes)}]"

    kept_in = "embedded store" if store == "embedded" else "on Iggy, the listener of a second gateway"
    lines = [
        "# Clients",
        "",
        "What stock clients do against the gateway. This page is written by `tests/clients/run --write-table`, which",
        "installs every client from its public registry and lets it live a day against a gateway of its own:",
        f"{kept_in}, {shards} shards, `--advertise {advertise}`, killed with `kill -9` in the middle of the day.",
        f"Last run: {datetime.date.today().isoformat()}.",
        "",
        "| client | version | " + " | ".join(STEPS) + " |",
        "| --- " * (len(STEPS) + 2) + "|",
    ]
    for report in reports:
        cells = [marked(report, name) for name in STEPS]
        lines.append(f"| {report.client} | {report.version} | " + " | ".join(cells) + " |")
    lines += ["", "A number stands for a step that the client has no call for:", ""]
    lines += [f"{n}. {note}" for n, note in enumerate(notes, 1)]
    lines += ["", "## What the steps did", ""]
    for report in reports:
        lines += [f"### {report.client} {report.version}", ""]
        for step in report.steps:
            if step.outcome == "ok":
                lines.append(f"- {step.name}: {step.detail}" if step.detail else f"- {step.name}")
            elif step.name not in STEPS:
                lines.append(f"- {step.name}: not possible: {step.detail}" if step.outcome == "skip"
                             else f"- {step.name}: **fails**: {step.detail}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
