"""What came of a row, as it is kept in its `outcome.json` and shown on the page."""

import dataclasses
import json
import pathlib
import statistics


@dataclasses.dataclass
class Bound:
    """A number that a row is held to. Without a target it is only told."""
    what: str
    measured: float
    unit: str = "x"
    most: float | None = None
    least: float | None = None

    def holds(self) -> bool | None:
        if self.most is not None:
            return self.measured <= self.most
        if self.least is not None:
            return self.measured >= self.least
        return None

    def target(self) -> str:
        if self.most is not None:
            return f"<= {number(self.most)}{_unit(self.unit)}"
        return f">= {number(self.least)}{_unit(self.unit)}" if self.least is not None else "-"

    def value(self) -> str:
        return f"{number(self.measured)}{_unit(self.unit)}"

    def verdict(self) -> str:
        """Whether it holds, and otherwise by how much it misses."""
        match self.holds():
            case None:
                return "told"
            case True:
                return "holds"
        over = self.measured / self.most if self.most is not None else self.least / max(self.measured, 1e-12)
        return f"**misses by {(over - 1) * 100:.0f} %**" if over < 2 else f"**misses, {over:.1f} times off**"


@dataclasses.dataclass
class Outcome:
    """A row that was run."""
    row: str
    bounds: list[Bound] = dataclasses.field(default_factory=list)
    # What each round gave: names of the columns, then a line of cells for each round.
    columns: list[str] = dataclasses.field(default_factory=list)
    rounds: list[list[str]] = dataclasses.field(default_factory=list)
    commands: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    # Runs whose generator was late, and why: their numbers describe the generator, too.
    invalid: list[str] = dataclasses.field(default_factory=list)
    # Parts of the row, or all of it, that could not be measured, each with its reason.
    not_measured: list[str] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    began: str = ""
    seconds: float = 0
    load_before: float = 0
    quick: bool = False

    def save(self, directory: pathlib.Path) -> None:
        made = directory / "outcome.json.new"
        made.write_text(json.dumps(dataclasses.asdict(self), indent=1))
        made.replace(directory / "outcome.json")

    @staticmethod
    def load(directory: pathlib.Path) -> "Outcome | None":
        file = directory / "outcome.json"
        if not file.exists():
            return None
        fields = json.loads(file.read_text())
        fields["bounds"] = [Bound(**bound) for bound in fields["bounds"]]
        return Outcome(**fields)


def median_ratio(rounds: list[dict[str, float]], ours: str, theirs: str) -> float:
    """The median of the rounds' ratios: both sides of each were measured one after the other."""
    return statistics.median(each[ours] / each[theirs] for each in rounds)


def number(value: float) -> str:
    """Three digits, without a power of ten."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def _unit(unit: str) -> str:
    return unit if unit in ("x", "%", "") else f" {unit}"
