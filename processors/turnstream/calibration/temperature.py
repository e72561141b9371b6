"""One number that makes a decider's probabilities mean what they say.

Temperature scaling (Guo, Pleiss, Sun, Weinberger: *On Calibration of Modern Neural Networks*, ICML
2017, section 4.2) divides a model's logits by one temperature T > 0 before the softmax. A decider
gives probabilities, and the logarithm of a probability is its logit up to a constant, which the
softmax cancels. So

    q_i = p_i^(1/T) / sum over j of p_j^(1/T)

T above 1 softens what is over-confident, T below 1 sharpens; the order of the options never
changes, and neither do certainties: 0 stays 0, and a lone 1 stays 1. T is the one that minimises
the mean negative log-likelihood of what was really done. With b = 1/T that is

    L(b) = mean of ( log sum over j of exp(b z_j)  -  b z_right ),  z_j = log p_j
    L'(b) = mean of ( sum over j of q_j z_j  -  z_right )

L is convex in b, so its minimum is where L' changes sign: it is found by bisection.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from turnstream.calibration.samples import Sample, distribution
from turnstream.core.contract import Action

COLDEST: Final = 0.05
HOTTEST: Final = 20.0
"""Temperatures that are looked at. A best one beyond them says that the probabilities do not fit
these labels at all; applied, it would make every option certain, or all alike."""

LEAST_TURNS: Final = 50
"""Fewer turns give a temperature that a handful of other turns would turn upside down."""

_ROUNDS: Final = 40
"""Halvings of the interval: far below the six digits that are kept."""

_SAME: Final = 1e-6
"""Distance at which a confidence still is the probability of its action: services round both."""


_Row = tuple[list[float], float]
"""The logarithms of a turn's probabilities above zero, and that of what was done."""


class Temperature(BaseModel):
    """A temperature, or why there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    value: float = Field(default=1.0, gt=0)
    """1 where it could not be fitted: everything stays as it is."""
    why_not: str | None = None
    """Why it could not be fitted."""
    turns: int = 0
    """Turns that it was fitted on."""
    impossible: int = 0
    """Turns left out since what was done there had probability 0: no temperature changes that."""
    without: int = 0
    """Turns left out since the decider gave no probabilities."""


def cooled(probabilities: Mapping[Action, float], temperature: float) -> dict[Action, float]:
    """The probabilities at a temperature; what is no distribution is returned as it is.

    Args:
        probabilities: not negative, at least one of them above zero.
        temperature: above zero; 1 changes nothing but the rounding of the sum.
    """
    given = probabilities.values()
    if not all(math.isfinite(one) and one >= 0 for one in given) or not any(given):
        return dict(probabilities)
    # Divided by the largest first, so that no power of a small probability is lost.
    largest = max(given)
    powers = {action: (one / largest) ** (1 / temperature) for action, one in probabilities.items()}
    total = sum(powers.values())
    return {action: power / total for action, power in powers.items()}


def cooled_confidence(
    confidence: float, action: str, probabilities: Mapping[Action, float], temperature: float
) -> float:
    """A confidence at a temperature.

    Where it is the probability of the action, it stays that. Where a decider means something of its
    own by it, it is taken as the probability of being right against being wrong.

    Args:
        confidence: 0 to 1; anything else is returned as it is.
        action: what was proposed.
        probabilities: the decider's, before the temperature.
        temperature: above zero.
    """
    if not 0 <= confidence <= 1:
        return confidence
    of_action = {str(name): one for name, one in probabilities.items()}.get(action)
    if of_action is not None and abs(of_action - confidence) <= _SAME:
        scaled = {str(name): one for name, one in cooled(probabilities, temperature).items()}
        return scaled[action] if temperature != 1 else confidence
    return _against_wrong(confidence, temperature)


def _against_wrong(confidence: float, temperature: float) -> float:
    if confidence in (0.0, 1.0) or temperature == 1:
        return confidence
    odds = (math.log(confidence) - math.log1p(-confidence)) / temperature
    # Of the two forms the one whose power cannot overflow.
    return 1 / (1 + math.exp(-odds)) if odds > 0 else 1 - 1 / (1 + math.exp(odds))


def fit_temperature(samples: Sequence[Sample]) -> Temperature:
    """Fit the temperature under which what was done is most probable.

    Args:
        samples: the tuning set.
    """
    rows: list[_Row] = []
    without = impossible = 0
    for sample in samples:
        positive = distribution(sample)
        if positive is None:
            without += 1
        elif sample.right not in positive:
            impossible += 1
        else:
            logs = [math.log(one) for one in positive.values()]
            rows.append((logs, math.log(positive[sample.right])))
    counted = Temperature(turns=len(rows), impossible=impossible, without=without)
    why_not = _why_not(rows, impossible, labels={sample.right for sample in samples})
    if why_not is not None:
        return counted.model_copy(update={"why_not": why_not})
    low, high = 1 / HOTTEST, 1 / COLDEST
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if _slope(rows, middle) < 0:
            low = middle
        else:
            high = middle
    return counted.model_copy(update={"value": round(2 / (low + high), 6)})


def _why_not(rows: Sequence[_Row], impossible: int, *, labels: AbstractSet[Action]) -> str | None:
    """Why no temperature can be fitted, if so."""
    if len(rows) < LEAST_TURNS:
        return f"{len(rows)} turns with a probability of what was done; {LEAST_TURNS} wanted"
    if impossible > len(rows):
        return f"what was done had probability 0 in {impossible} turns, most of them"
    if len(labels) == 1:
        return f"all turns have the label {min(labels)}: nothing to tell apart"
    if all(len(logs) == 1 for logs, _ in rows):
        return "every probability is 0 or 1: no temperature changes them"
    if _slope(rows, 1 / HOTTEST) >= 0:
        return f"best above {HOTTEST:g}: the probabilities do not tell what is done"
    if _slope(rows, 1 / COLDEST) <= 0:
        return f"best below {COLDEST:g}: the most probable action is always the right one"
    return None


def negative_log_likelihood(samples: Sequence[Sample], temperature: float) -> float | None:
    """The mean over the turns where what was done had a probability; None without any."""
    losses = []
    for sample in samples:
        positive = distribution(sample)
        if positive is not None and sample.right in positive:
            losses.append(-math.log(max(cooled(positive, temperature)[sample.right], 1e-300)))
    return sum(losses) / len(losses) if losses else None


def _slope(rows: Sequence[_Row], sharpness: float) -> float:
    """The derivative of the mean loss by 1/T."""
    total = 0.0
    for logs, right in rows:
        largest = max(logs)
        weights = [math.exp(sharpness * (one - largest)) for one in logs]
        expected = sum(map(float.__mul__, weights, logs)) / sum(weights)
        total += expected - right
    return total / len(rows)
