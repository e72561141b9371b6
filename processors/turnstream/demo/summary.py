"""What a play has led to, counted from the events themselves."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnstream.core.contract import ACTIONS
from turnstream.core.events import Label, ToolResult
from turnstream.core.publications import ActionEvent, Outcome, ShadowComparison
from turnstream.demo.agreement import Agreement
from turnstream.demo.traffic import Passed
from turnstream.metrics.catalogue import PROPOSED

_ENDINGS: Final = ("accepted", "cancelled", "late", "expired")


class Summary:
    """Counts over everything that passed."""

    def __init__(self, passed: Iterable[Passed]) -> None:
        """Count."""
        self.conversations: set[str] = set()
        self.decisions: Counter[tuple[str, str]] = Counter()
        """(action, reason_code)."""
        self.handoffs: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        """(tool, outcome)."""
        self.retries = 0
        self.outcomes: Counter[str] = Counter()
        self.categories: Counter[str] = Counter()
        self.labels = 0
        self.unlabelled = 0
        """Labels that only say that the classifier failed."""
        self.agreement = Agreement()
        self.asked: set[str] = set()
        self.ended: dict[str, str] = {}
        """Question to how it ended."""
        latest: dict[str, Label] = {}
        for one in passed:
            self.conversations.add(one.conversation_id)
            match one.event:
                case ActionEvent() as action:
                    self._action(action)
                case ToolResult() as result if result.final:
                    self.calls[result.name, result.outcome] += 1
                case ToolResult():
                    self.retries += 1
                case Outcome() as outcome:
                    self.outcomes[f"{outcome.of} {outcome.outcome}"] += 1
                    if outcome.of == "question" and outcome.question_id is not None:
                        self.ended[outcome.question_id] = outcome.outcome
                case Label() as label:
                    self.labels += 1
                    self.unlabelled += label.error is not None
                    latest[label.conversation_id] = label
                case ShadowComparison() as comparison:
                    self.agreement.add(comparison)
        for label in latest.values():
            self.categories.update(label.categories)

    def _action(self, action: ActionEvent) -> None:
        self.decisions[action.decision.action, action.decision.reason_code] += 1
        if action.handoff is not None:
            self.handoffs[action.handoff.cause or PROPOSED] += 1
        if action.question is not None:
            self.asked.add(action.question.question_id)
        if action.question_ended is not None:
            ended = action.question_ended
            # A late reply says how the reply came; its question had ended before.
            self.ended.setdefault(ended.question_id, ended.outcome)

    @property
    def open_questions(self) -> int:
        """Questions that nobody has answered and nothing has ended."""
        return len(self.asked - self.ended.keys())

    def print(self, console: Console, *, plain: bool) -> None:
        """Print all tables."""
        style = box.ASCII2 if plain else box.SIMPLE_HEAD
        calls = [(*key, str(count)) for key, count in sorted(self.calls.items())]
        decisions = [
            (action, reason, str(count))
            for action in ACTIONS
            for (of, reason), count in sorted(self.decisions.items())
            if of == action
        ]
        tables = [
            ("Decisions", _table(("action", "reason", "count"), decisions, style)),
            ("Questions", _table(("questions", "count"), self._questions(), style)),
            (
                f"Tool calls, after {self.retries} failed attempts that were tried again",
                _table(("tool", "outcome", "count"), calls, style),
            ),
            ("Handoffs", _table(("cause", "count"), _counted(self.handoffs), style)),
            (
                "Turns, replies and questions without a decision of their own",
                _table(("outcome", "count"), _counted(self.outcomes), style),
            ),
            (
                f"Labels: {self.labels}; conversations by category",
                _table(("category", "count"), _counted(self.categories), style),
            ),
            (self.agreement.title, self.agreement.table(style)),
        ]
        for title, table in tables:
            console.print()
            console.print(Text(title, style="bold"))
            console.print(table)

    def _questions(self) -> list[tuple[str, str]]:
        ways = Counter(self.ended[one] for one in self.asked if one in self.ended)
        return [
            ("asked", str(len(self.asked))),
            ("answered", str(ways["accepted"])),
            *((way, str(ways[way])) for way in _ENDINGS[1:] if ways[way]),
            ("open", str(self.open_questions)),
        ]


def _counted(counts: Counter[str]) -> list[tuple[str, str]]:
    return [(name, str(count)) for name, count in sorted(counts.items())]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], style: box.Box) -> Table:
    table = Table(box=style)
    for column in columns:
        table.add_column(column, justify="right" if column == "count" else "left")
    for row in rows:
        table.add_row(*row)
    if not rows:
        table.add_row("none", *[""] * (len(columns) - 1))
    return table
