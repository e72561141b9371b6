"""How often a decider is right when it says how sure it is.

The turns are put into bins of equal width by their confidence. In a reliable decider the share of
right ones in a bin is the bin's mean confidence. The expected calibration error is the mean
distance of the two, weighted by the turns in each bin (Naeini, Cooper, Hauskrecht, AAAI 2015):

    ECE = sum over bins of  n_bin / n  *  | accuracy - mean confidence |
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from turnstream.calibration.samples import Sample, distribution
from turnstream.calibration.temperature import cooled, cooled_confidence


@dataclass(frozen=True, slots=True)
class Bin:
    """The turns whose confidence lies in one interval."""

    low: float
    high: float
    """Excluded, except in the last bin."""
    count: int
    mean_confidence: float | None
    """None in an empty bin, as is `accuracy`."""
    accuracy: float | None
    """Share of right ones, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Bins, from the least sure to the surest, and their summary."""

    bins: tuple[Bin, ...]
    count: int
    error: float | None
    """The expected calibration error, 0 to 1; None without any turn."""


def reliability(pairs: Iterable[tuple[float, bool]], *, bins: int) -> Reliability:
    """Sort confidences into bins.

    Args:
        pairs: a confidence from 0 to 1, and whether it was right.
        bins: their number.
    """
    sorted_in: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, right in pairs:
        sorted_in[min(int(confidence * bins), bins - 1)].append((confidence, right))
    made = tuple(_bin(one, at, bins) for at, one in enumerate(sorted_in))
    count = sum(one.count for one in made)
    error = None
    if count:
        error = sum(
            one.count / count * abs(one.accuracy - one.mean_confidence)
            for one in made
            if one.accuracy is not None and one.mean_confidence is not None
        )
    return Reliability(made, count, error)


def _bin(pairs: Sequence[tuple[float, bool]], at: int, bins: int) -> Bin:
    count = len(pairs)
    return Bin(
        low=at / bins,
        high=(at + 1) / bins,
        count=count,
        mean_confidence=sum(confidence for confidence, _ in pairs) / count if count else None,
        accuracy=sum(right for _, right in pairs) / count if count else None,
    )


def of_confidence(samples: Sequence[Sample], temperature: float) -> Iterable[tuple[float, bool]]:
    """What the policy judges: the confidence of each proposal that it could hold back."""
    return [(confidence_of(one, temperature), one.agrees) for one in samples if one.judged]


def of_actions(samples: Sequence[Sample], temperature: float) -> Iterable[tuple[float, bool]]:
    """The probability of the most probable action, and whether that was what was done."""
    pairs = []
    for sample in samples:
        positive = distribution(sample)
        if positive is not None:
            scaled = cooled(positive, temperature)
            likeliest = max(scaled, key=scaled.__getitem__)
            pairs.append((scaled[likeliest], likeliest == sample.right))
    return pairs


def confidence_of(sample: Sample, temperature: float) -> float:
    """A sample's confidence at a temperature."""
    return cooled_confidence(sample.confidence, sample.action, sample.probabilities, temperature)
