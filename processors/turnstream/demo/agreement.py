"""How often a candidate would have done what was done: five actions against five."""

from collections import Counter
from collections.abc import Iterable

from rich import box
from rich.table import Table
from rich.text import Text

from turnstream.core.contract import ACTIONS
from turnstream.core.publications import ShadowComparison


class Agreement:
    """Counts over comparisons."""

    def __init__(self, comparisons: Iterable[ShadowComparison] = ()) -> None:
        """Count.

        Args:
            comparisons: What is counted from the start.
        """
        self.counts: Counter[tuple[str, str]] = Counter()
        """(live action, candidate's action); a live action may be `unlabelled`."""
        self.verdicts: Counter[str] = Counter()
        for comparison in comparisons:
            self.add(comparison)

    def add(self, comparison: ShadowComparison) -> None:
        """Count one more."""
        self.counts[comparison.live_action, comparison.proposed.action] += 1
        self.verdicts[comparison.verdict] += 1

    @property
    def total(self) -> int:
        """How many were compared."""
        return self.counts.total()

    @property
    def comparable(self) -> int:
        """How many of them say what was done."""
        return sum(count for (live, _), count in self.counts.items() if live in ACTIONS)

    @property
    def same_action(self) -> int:
        """How many chose the same of the five actions."""
        return sum(count for (live, other), count in self.counts.items() if live == other)

    @property
    def title(self) -> str:
        """The result in one line."""
        share = (
            f"{self.same_action}/{self.comparable} the same action"
            if self.total
            else "no comparisons"
        )
        verdicts = ", ".join(f"{name} {count}" for name, count in sorted(self.verdicts.items()))
        return f"Shadow agreement: {share}; verdicts: {verdicts or 'none'}"

    def table(self, style: box.Box) -> Table:
        """Live actions by row, the candidate's by column."""
        table = Table(box=style)
        table.add_column("live \\ candidate")
        for action in ACTIONS:
            table.add_column(action, justify="right")
        for live in ACTIONS:
            cells = [
                Text(
                    str(self.counts[live, other]),
                    style=("bold green" if live == other else "bold red")
                    if self.counts[live, other]
                    else "dim",
                )
                for other in ACTIONS
            ]
            table.add_row(live, *cells)
        return table

    def as_json(self) -> dict[str, object]:
        """The same as a JSON object; `actions` is live action to candidate's action to count."""
        return {
            "comparisons": self.total,
            "comparable": self.comparable,
            "same_action": self.same_action,
            "verdicts": dict(sorted(self.verdicts.items())),
            "actions": {
                live: {other: self.counts[live, other] for other in ACTIONS} for live in ACTIONS
            },
        }
