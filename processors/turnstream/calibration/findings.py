"""What the control set shows of a decider: what it does rightly, wrongly, and not at all."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnstream.calibration.reliability import (
    Reliability,
    confidence_of,
    of_actions,
    of_confidence,
    reliability,
)
from turnstream.calibration.result import Calibration
from turnstream.calibration.samples import Sample
from turnstream.calibration.temperature import negative_log_likelihood
from turnstream.calibration.thresholds import Price, by_action, by_tool, price
from turnstream.core.contract import ACTIONS, Action
from turnstream.core.definitions import Catalog

GRID: Final = tuple(step / 10 for step in range(10))
"""Thresholds whose cost is shown beside the fitted one."""


@dataclass(frozen=True, slots=True)
class Mistakes:
    """Turns of each kind of mistake, under one way of holding back."""

    turns: int
    right: int
    """The same action, tool and field as were labelled."""
    right_action: int
    handed_off: int
    """Handoffs where something else was right."""
    unnecessary_calls: int
    """Calls where no call was right."""
    wrong_tool: int
    """Calls of another tool than the labelled one."""
    missed_questions: int
    """Something else was done where a question was right; a handoff is none of these."""
    superfluous_questions: int
    """Questions where no question was right."""
    wrong_field: int
    """Questions about another field than the labelled one."""
    wrong_refusals: int
    """Refusals where no refusal was right."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything decided under one way of holding back."""

    mistakes: Mistakes
    table: Mapping[Action, Mapping[Action, int]]
    """What was right to what would be done to their number."""


@dataclass(frozen=True, slots=True)
class NearTie:
    """Two tools that a decider can hardly tell apart."""

    tools: tuple[str, str]
    descriptions: tuple[str, str]
    """Of the catalog, in the order of `tools`."""
    turns: int
    mean_apart: float
    """Mean distance of their probabilities."""
    labelled: tuple[int, int]
    """Turns where the one or the other was called."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """What thresholds cost for one action or tool."""

    name: str
    of: str
    """`action` or `tool`."""
    before: Price
    """At the catalog's threshold, confidences as the decider gave them."""
    after: Price
    """At the greater of the catalog's and the fitted one, confidences at the temperature."""
    fitted: float | None
    """The one that the tuning set gave; None where it had too few proposals."""
    note: str | None
    """Why there is none, or what is to be known of it."""
    grid: tuple[Price, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All that is shown of a control set."""

    confidence_kinds: Mapping[str, int]
    """What the decider means by its confidence, to the number of proposals: no other kind of number
    is as reliable as these are."""
    confidence: tuple[Reliability, Reliability]
    """Of what could be held back, before and after the temperature."""
    actions: tuple[Reliability, Reliability]
    """Of the most probable action, before and after."""
    log_loss: tuple[float | None, float | None]
    prices: tuple[PriceList, ...]
    free: Stage
    """With nothing held back."""
    before: Stage
    """With the catalog's thresholds."""
    after: Stage
    """With the calibration."""
    near_ties: tuple[NearTie, ...]
    """Most frequent first."""


def report(
    control: Sequence[Sample], calibration: Calibration, catalog: Catalog, *, bins: int
) -> Report:
    """Look at the control set.

    Args:
        control: no sample of it may have been fitted on.
        calibration: fitted on the tuning set.
        catalog: the decider's.
        bins: of the reliability tables.
    """
    temperature = calibration.temperature.value
    temperatures = (1.0, temperature)
    confidence, confidence_after = (
        reliability(of_confidence(control, one), bins=bins) for one in temperatures
    )
    actions, actions_after = (
        reliability(of_actions(control, one), bins=bins) for one in temperatures
    )
    plain, calibrated = _Bar(catalog), _Bar(catalog, calibration)
    return Report(
        confidence_kinds=dict(Counter(one.confidence_kind for one in control if one.judged)),
        confidence=(confidence, confidence_after),
        actions=(actions, actions_after),
        log_loss=(
            negative_log_likelihood(control, 1.0),
            negative_log_likelihood(control, temperature),
        ),
        prices=tuple(_prices(control, plain, calibrated, calibration)),
        free=stage(control, lambda _: False),
        before=stage(control, plain.holds),
        after=stage(control, calibrated.holds),
        near_ties=near_ties(control, catalog),
    )


class _Bar:
    """What the policy demands of a proposal, as `turnstream.core.policy` has it."""

    def __init__(self, catalog: Catalog, calibration: Calibration | None = None) -> None:
        self._catalog = catalog
        self._calibration = calibration
        self.temperature = 1.0 if calibration is None else calibration.temperature.value

    def least(self, action: Action, tool: str | None) -> float:
        least = self._catalog.thresholds.of(action)
        if action == "call_tool" and tool in self._catalog.tools:
            least = max(least, self._catalog.tools[tool].threshold or 0.0)
        if self._calibration is not None:
            least = max(least, self._calibration.least_confidence(action, tool))
        return least

    def holds(self, sample: Sample) -> bool:
        if not sample.judged:
            return False
        confidence = confidence_of(sample, self.temperature)
        if confidence < self.least(sample.action, sample.tool):
            return True
        margin = sample.margin
        return margin is not None and margin < self._catalog.thresholds.near_tie_margin


def stage(samples: Sequence[Sample], holds: Callable[[Sample], bool]) -> Stage:
    """Count what is done, and what of it is wrong.

    Args:
        samples: labelled turns.
        holds: whether a sample is handed off instead.
    """
    table: Counter[tuple[Action, Action]] = Counter()
    seen: Counter[str] = Counter()
    for sample in samples:
        held = holds(sample)
        done: Action = "handoff" if held else sample.action
        table[sample.right, done] += 1
        agrees = sample.agrees if not held else sample.right == "handoff"
        same = done == sample.right
        seen["right"] += agrees
        seen["right_action"] += same
        seen["handed_off"] += done == "handoff" and not same
        seen["unnecessary_calls"] += done == "call_tool" and not same
        seen["wrong_tool"] += done == "call_tool" and same and not agrees
        seen["missed_questions"] += sample.right == "ask" and done not in ("ask", "handoff")
        seen["superfluous_questions"] += done == "ask" and not same
        seen["wrong_field"] += done == "ask" and same and not agrees
        seen["wrong_refusals"] += done == "refuse" and not same
    return Stage(
        Mistakes(
            turns=len(samples),
            right=seen["right"],
            right_action=seen["right_action"],
            handed_off=seen["handed_off"],
            unnecessary_calls=seen["unnecessary_calls"],
            wrong_tool=seen["wrong_tool"],
            missed_questions=seen["missed_questions"],
            superfluous_questions=seen["superfluous_questions"],
            wrong_field=seen["wrong_field"],
            wrong_refusals=seen["wrong_refusals"],
        ),
        {right: {done: table[right, done] for done in ACTIONS} for right in ACTIONS},
    )


def _prices(
    control: Sequence[Sample], plain: _Bar, calibrated: _Bar, calibration: Calibration
) -> Sequence[PriceList]:
    lists = []
    groups: list[tuple[str, str, Action, str | None, list[Sample]]] = [
        (action, "action", action, None, found) for action, found in by_action(control).items()
    ]
    groups += [(tool, "tool", "call_tool", tool, found) for tool, found in by_tool(control).items()]
    aim = calibration.aim
    for name, of, action, tool, found in groups:
        fitted = calibration.actions.get(action) if tool is None else calibration.tools.get(tool)
        lists.append(
            PriceList(
                name=name,
                of=of,
                before=price(found, plain.least(action, tool), temperature=1.0, aim=aim),
                after=price(
                    found,
                    calibrated.least(action, tool),
                    temperature=calibrated.temperature,
                    aim=aim,
                ),
                fitted=None if fitted is None else fitted.value,
                note="never proposed in the tuning set" if fitted is None else fitted.note,
                grid=tuple(
                    price(found, step, temperature=calibrated.temperature, aim=aim) for step in GRID
                ),
            )
        )
    return lists


def near_ties(samples: Sequence[Sample], catalog: Catalog) -> tuple[NearTie, ...]:
    """The pairs of tools whose distance was below the catalog's `near_tie_margin`."""
    found: dict[tuple[str, str], list[tuple[Sample, float]]] = {}
    for sample in samples:
        rivals, apart = sample.rivals, sample.apart
        if rivals is None or apart is None or apart >= catalog.thresholds.near_tie_margin:
            continue
        if all(one in catalog.tools for one in rivals):
            found.setdefault((min(rivals), max(rivals)), []).append((sample, apart))
    ties = [_tie(pair, tied, catalog) for pair, tied in found.items()]
    return tuple(sorted(ties, key=lambda tie: (-tie.turns, tie.tools)))


def _tie(pair: tuple[str, str], tied: Sequence[tuple[Sample, float]], catalog: Catalog) -> NearTie:
    first, second = pair
    called = Counter(one.right_tool for one, _ in tied if one.right == "call_tool")
    return NearTie(
        tools=pair,
        descriptions=(catalog.tools[first].description, catalog.tools[second].description),
        turns=len(tied),
        mean_apart=sum(apart for _, apart in tied) / len(tied),
        labelled=(called[first], called[second]),
    )
