"""The least confidence from which an action, or a tool, goes on without a person.

A threshold is chosen on the tuning set among the confidences that were seen there. With a target
precision it is the lowest one from which on at least that share of the proposals is right: as
little as possible is handed off. With costs it is the one under which doing what is above and
handing off what is below cost least together. Where no threshold will do, it is 1: all but
certainties are handed off. Where there is too little to tell, there is none.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from turnstream.calibration.costs import Costs
from turnstream.calibration.reliability import confidence_of
from turnstream.calibration.samples import Sample
from turnstream.core.contract import Action

GUARDED: Final[tuple[Action, ...]] = ("answer", "call_tool", "ask", "refuse")
"""The actions that a threshold can hold back; a handoff is what they are held back for."""

LEAST_PROPOSALS: Final = 30
"""With fewer, one proposal more or less would move a precision by over three percent."""

LEAST_KEPT: Final = 20
"""Proposals above a threshold by which its precision is believed: three out of three prove
nothing."""

_DIGITS: Final = 1_000_000
"""Thresholds are cut down to six digits, so that the confidence they were taken from passes."""


class TargetPrecision(BaseModel):
    """At least this share of what goes on without a person shall be right."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["target_precision"] = "target_precision"
    precision: float = Field(gt=0, le=1)


class LeastCost(BaseModel):
    """What is done and what is handed off shall cost as little as possible."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["least_cost"] = "least_cost"
    costs: Costs


Aim = TargetPrecision | LeastCost


class Threshold(BaseModel):
    """A fitted threshold, or why there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    value: float | None = Field(default=None, ge=0, le=1)
    """Compared with the confidence at the temperature; None where nothing could be fitted."""
    note: str | None = None
    """Why there is none, or what is to be known of it."""
    proposals: int = 0
    """On the tuning set, as is `kept`."""
    kept: int = 0
    """Proposals at or above it."""


def fit_threshold(samples: Sequence[Sample], *, temperature: float, aim: Aim) -> Threshold:
    """Fit one threshold.

    Args:
        samples: the judged proposals of one action or tool in the tuning set.
        temperature: of their confidences.
        aim: what it is for.
    """
    count = len(samples)
    if count < LEAST_PROPOSALS:
        return Threshold(note=f"{count} proposals; {LEAST_PROPOSALS} wanted", proposals=count)
    scored = sorted(((confidence_of(one, temperature), one) for one in samples), key=_first)
    cuts = _cuts(scored)
    match aim:
        case TargetPrecision(precision=wanted):
            return _precise(cuts, count, wanted)
        case LeastCost(costs=costs):
            return _cheap(cuts, count, samples, costs)


@dataclass(frozen=True, slots=True)
class _Cut:
    """What lies at or above one of the confidences seen."""

    confidence: float
    above: tuple[Sample, ...]
    """The samples of this very confidence."""


def _first(pair: tuple[float, Sample]) -> float:
    return -pair[0]


def _cuts(scored: Iterable[tuple[float, Sample]]) -> list[_Cut]:
    """From the surest down; samples of equal confidence cannot be told apart."""
    return [
        _Cut(confidence, tuple(one for _, one in group))
        for confidence, group in groupby(scored, key=lambda pair: pair[0])
    ]


def _precise(cuts: Sequence[_Cut], count: int, wanted: float) -> Threshold:
    kept = right = 0
    best: tuple[float, int] | None = None
    nearest, nearest_kept = -1.0, 0
    for cut in cuts:
        kept += len(cut.above)
        right += sum(one.agrees for one in cut.above)
        if kept < LEAST_KEPT:
            continue
        precision = right / kept
        if precision >= wanted:
            best = (cut.confidence, kept)
        if precision > nearest:
            nearest, nearest_kept = precision, kept
    if best is None:
        return Threshold(
            value=1.0,
            note=f"no threshold reaches {wanted:.0%} on {LEAST_KEPT} proposals or more; the best "
            f"has {nearest:.0%} of {nearest_kept}",
            proposals=count,
            kept=len(cuts[0].above) if cuts[0].confidence == 1 else 0,
        )
    confidence, kept = best
    return Threshold(value=_cut_down(confidence), proposals=count, kept=kept)


def _cheap(cuts: Sequence[_Cut], count: int, samples: Sequence[Sample], costs: Costs) -> Threshold:
    # Beginning with everything handed off, each cut moves its samples over to being done.
    cost = least = sum(costs.of_holding_back(one) for one in samples)
    kept = 0
    best: tuple[float, int] | None = None
    for cut in cuts:
        cost += sum(costs.of_doing(one) - costs.of_holding_back(one) for one in cut.above)
        kept += len(cut.above)
        if cost <= least:
            least, best = cost, (cut.confidence, kept)
    if best is None:
        note = "handing off costs least at every confidence that was seen"
        return Threshold(value=1.0, note=note, proposals=count)
    confidence, kept = best
    return Threshold(value=_cut_down(confidence), proposals=count, kept=kept)


def _cut_down(confidence: float) -> float:
    return math.floor(confidence * _DIGITS) / _DIGITS


@dataclass(frozen=True, slots=True)
class Price:
    """What one threshold keeps and hands off."""

    threshold: float
    proposals: int
    kept: int
    kept_right: int
    held_right: int
    """Handed off although they were right."""
    cost: float | None
    """Of all of them together; None where no costs are given."""

    @property
    def held(self) -> int:
        """How many are handed off."""
        return self.proposals - self.kept

    @property
    def coverage(self) -> float | None:
        """The share that goes on without a person, 0 to 1."""
        return self.kept / self.proposals if self.proposals else None

    @property
    def precision(self) -> float | None:
        """The share of what goes on that is right, 0 to 1."""
        return self.kept_right / self.kept if self.kept else None


def price(samples: Sequence[Sample], threshold: float, *, temperature: float, aim: Aim) -> Price:
    """What a threshold does to the judged proposals of one action or tool.

    Args:
        samples: the proposals.
        threshold: 0 to 1.
        temperature: of their confidences.
        aim: gives the costs, where there are any.
    """
    kept = [one for one in samples if confidence_of(one, temperature) >= threshold]
    right = sum(one.agrees for one in samples)
    kept_right = sum(one.agrees for one in kept)
    cost = None
    if isinstance(aim, LeastCost):
        done = {id(one) for one in kept}
        cost = sum(
            aim.costs.of_doing(one) if id(one) in done else aim.costs.of_holding_back(one)
            for one in samples
        )
    return Price(threshold, len(samples), len(kept), kept_right, right - kept_right, cost)


def by_action(samples: Iterable[Sample]) -> Mapping[Action, list[Sample]]:
    """The judged proposals of each action."""
    return {
        action: found
        for action in GUARDED
        if (found := [one for one in samples if one.judged and one.action == action])
    }


def by_tool(samples: Iterable[Sample]) -> Mapping[str, list[Sample]]:
    """The judged proposals to call each tool, by name."""
    found: dict[str, list[Sample]] = {}
    for one in samples:
        if one.judged and one.action == "call_tool" and one.tool is not None:
            found.setdefault(one.tool, []).append(one)
    return dict(sorted(found.items()))
