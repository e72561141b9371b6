"""A calibration and what it does to the control set, as tables."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from turnstream.core.contract import ACTIONS

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from turnstream.calibration import Calibration, NearTie, Price, Report, Stage

_TIES: Final = 10
"""Pairs of tools shown; the rest were seen once or twice."""

_MISTAKES: Final = {
    "turns": "turns",
    "right": "right (action, tool and field)",
    "right_action": "the right action",
    "handed_off": "handed off without need",
    "unnecessary_calls": "unnecessary calls",
    "wrong_tool": "calls of the wrong tool",
    "missed_questions": "missed questions",
    "superfluous_questions": "superfluous questions",
    "wrong_field": "questions about the wrong field",
    "wrong_refusals": "wrong refusals",
}
"""What is counted to its name for people."""


def as_json(calibration: "Calibration", report: "Report") -> dict[str, Any]:
    """Everything that was found, as a JSON object."""
    return {"calibration": calibration.model_dump(mode="json"), "report": asdict(report)}


def print_sheet(console: "Console", calibration: "Calibration", report: "Report") -> None:
    """Print everything that was found."""
    style = box.SIMPLE_HEAD if console.is_terminal else box.ASCII2
    for one in _sheet(calibration, report, style):
        console.print(one)


def _sheet(
    calibration: "Calibration", report: "Report", style: box.Box
) -> "Iterable[RenderableType]":
    made_from, made_for = calibration.made_from, calibration.made_for
    yield Text(f"decider           {made_for.decider}")
    yield Text(f"decision version  {made_for.decision_version}")
    for name, one in (("tuning set", made_from.tuning), ("control set", made_from.control)):
        turns, conversations = one.labelled_turns, one.conversations
        yield Text(f"{name:<16}  {turns:,} labelled turns of {conversations:,} conversations")
    yield Text(_temperature(calibration))
    yield Text(_errors("confidence", report.confidence[0].error, report.confidence[1].error))
    yield Text(_errors("actions", report.actions[0].error, report.actions[1].error))
    before, after = report.log_loss
    yield Text(f"log loss          {_number(before)} -> {_number(after)}")
    for kind, count in report.confidence_kinds.items():
        yield Text(f"confidence means  {kind} ({count:,} proposals)")
    yield Text("\nEverything below is about the control set.\n")
    yield Text("Reliability of the confidence, as given and at the temperature (T)")
    yield _reliability(report, style)
    yield Text("Thresholds, the catalog's and calibrated (held: for a person)")
    yield _prices(report, style, with_cost=_has_costs(report))
    without = [one.name for one in report.prices if one.fitted is None]
    if without:
        yield Text(f"No threshold of their own, too few proposals: {', '.join(without)}\n")
    yield Text("Other thresholds at the temperature: share kept, right of them, held")
    yield _grid(report, style)
    yield Text("Mistakes")
    yield _mistakes(report, style)
    yield Text("What was right (rows) and what is proposed, nothing held back")
    yield _table(report.free, style)
    yield Text("The same with the calibration")
    yield _table(report.after, style)
    yield Text(f"Near ties of two tools: {len(report.near_ties):,} pairs")
    if report.near_ties:
        yield _near_ties(report.near_ties[:_TIES], style)
        if len(report.near_ties) > _TIES:
            yield Text(f"and {len(report.near_ties) - _TIES:,} pairs more; -o json has them all")


def _temperature(calibration: "Calibration") -> str:
    found = calibration.temperature
    if found.why_not is not None:
        return f"temperature       none: {found.why_not}"
    parts = [f"temperature       {found.value:.3f}, of {found.turns:,} turns"]
    parts += [
        f"{count:,} left out: {why}"
        for count, why in (
            (found.impossible, "what was done had probability 0"),
            (found.without, "no probabilities"),
        )
        if count
    ]
    return "; ".join(parts)


def _errors(of: str, before: float | None, after: float | None) -> str:
    label = f"error, {of}"
    return f"{label:<18}{_number(before)} -> {_number(after)} (expected calibration error)"


def _new(style: box.Box, *columns: str) -> Table:
    table = Table(box=style)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=not place)
    return table


def _reliability(report: "Report", style: box.Box) -> Table:
    titles = ("count", "mean", "right")
    table = _new(style, "confidence", *titles, *(f"{one} (T)" for one in titles))
    before, after = report.confidence
    for one, other in zip(before.bins, after.bins, strict=True):
        cells = [
            cell
            for part in (one, other)
            for cell in (f"{part.count:,}", _number(part.mean_confidence), _number(part.accuracy))
        ]
        table.add_row(f"{one.low:.2f} to {one.high:.2f}", *cells)
    return table


def _prices(report: "Report", style: box.Box, *, with_cost: bool) -> Table:
    titles = ["least", "kept", "right", "held", "right, held"]
    table = _new(style, "", *titles, *(["cost"] if with_cost else []))
    for one in report.prices:
        if one.fitted is not None:
            table.add_row(one.name, *_price(one.before, with_cost=with_cost))
            cells = _price(one.after, with_cost=with_cost)
            table.add_row("  calibrated", *cells, end_section=True)
    return table


def _price(price: "Price", *, with_cost: bool) -> Sequence[str]:
    cells = [
        f"{price.threshold:.3f}",
        f"{price.kept:,} ({_share(price.coverage)})",
        _share(price.precision),
        f"{price.held:,}",
        f"{price.held_right:,}",
    ]
    return [*cells, _number(price.cost)] if with_cost else cells


def _has_costs(report: "Report") -> bool:
    return any(one.after.cost is not None for one in report.prices)


def _grid(report: "Report", style: box.Box) -> Table:
    lists = [one for one in report.prices if one.of == "action"]
    table = _new(style, "least", *(one.name for one in lists))
    for prices in zip(*(one.grid for one in lists), strict=True):
        cells = [f"{_share(one.coverage)}, {_share(one.precision)}, {one.held:,}" for one in prices]
        table.add_row(f"{prices[0].threshold:.1f}", *cells)
    return table


def _mistakes(report: "Report", style: box.Box) -> Table:
    columns = ("nothing held", "catalog", "calibrated")
    table = _new(style, "", *columns)
    stages = (report.free.mistakes, report.before.mistakes, report.after.mistakes)
    for one in fields(report.free.mistakes):
        table.add_row(_MISTAKES[one.name], *(f"{getattr(stage, one.name):,}" for stage in stages))
    return table


def _table(stage: "Stage", style: box.Box) -> Table:
    table = _new(style, "", *ACTIONS)
    for right, counts in stage.table.items():
        table.add_row(right, *(f"{counts[done]:,}" for done in ACTIONS))
    return table


def _near_ties(ties: "Sequence[NearTie]", style: box.Box) -> Table:
    table = _new(style, "tool", "turns", "distance", "labelled", "description")
    table.columns[-1].justify = "left"
    for tie in ties:
        both = zip(tie.tools, tie.labelled, tie.descriptions, strict=True)
        for place, (tool, labelled, description) in enumerate(both):
            turns = f"{tie.turns:,}" if place == 0 else ""
            apart = _number(tie.mean_apart) if place == 0 else ""
            table.add_row(tool, turns, apart, f"{labelled:,}", description, end_section=place == 1)
    return table


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
