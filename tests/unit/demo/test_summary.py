"""The summary counts what has passed."""

import io

from rich.console import Console

from tests.unit.demo import events
from turnstream.demo.summary import Summary


def test_counts() -> None:
    """Decisions, questions, outcomes and agreement are counted from the events."""
    summary = Summary(
        [
            events.turn("x"),
            events.action("a"),
            events.action("b", offset=1),
            events.action("r", offset=2, decision=events.REFUSE),
            events.outcome("buffered", offset=3),
            events.comparison("a", events.ASK),
            events.comparison("b", events.REFUSE),
        ]
    )

    assert {("ask", "missing_input"): 2, ("refuse", "policy_block"): 1} == summary.decisions
    assert 2 == summary.open_questions
    assert {"turn buffered": 1} == summary.outcomes
    assert {("ask", "ask"): 1, ("ask", "refuse"): 1} == summary.agreement.counts


def test_agreement_is_a_table_of_five_by_five() -> None:
    """Every action is a row and a column, also when nothing was compared."""
    out = io.StringIO()
    Summary([]).print(Console(file=out, color_system=None, width=100), plain=True)
    rows = out.getvalue().split("live \\ candidate")[1].splitlines()

    assert ["answer", "call_tool", "ask", "refuse", "handoff"] == [
        row.split()[1] for row in rows if row.startswith("| ")
    ]
