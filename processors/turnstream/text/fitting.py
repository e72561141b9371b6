"""Learns what each feature says for each option, from the options' examples.

A multinomial logistic regression in its kernel form, since there are fewer examples than features.
Every option counts alike, however many examples it has. The fit takes a fixed number of steps of a
method that cannot diverge (a fixed bound on the curvature, Boehning 1992), so that the same
examples always give the same weights.
"""

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

Row = Mapping[str, float]
"""Feature to strength."""

_STEPS: Final = 30
"""Steps after which the weights no longer change in the digits that are kept."""

PENALTY: Final = 0.0015
"""Pull of the weights towards 0, by cross-validation: less follows single examples, more lets the
most frequent words decide."""

ALWAYS_RARE: Final = "#"
"""First character of features that are told by their presence, however common: values."""

_DIGITS: Final = 4
"""Rounded, so that noise of the arithmetic never decides between two options."""


def rarities(rows: Sequence[Row]) -> dict[str, float]:
    """How much a feature tells by its rarity: 1 for the rarest.

    Args:
        rows: the features of every example.
    """
    seen: dict[str, int] = {}
    for row in rows:
        for feature in row:
            seen[feature] = seen.get(feature, 0) + 1
    most = log(1 + len(rows))
    return {
        feature: 1.0 if feature.startswith(ALWAYS_RARE) else log(1 + len(rows) / count) / most
        for feature, count in sorted(seen.items())
    }


def likeness(rows: Sequence[Row]) -> NDArray[np.float64]:
    """How alike examples are (cosine), examples by examples.

    Args:
        rows: the features of every example, weighed by rarity.
    """
    where: dict[str, list[tuple[int, float]]] = {}
    for at, row in enumerate(rows):
        length = _length(row)
        for feature, strength in row.items():
            where.setdefault(feature, []).append((at, strength / length))
    kernel = np.zeros((len(rows), len(rows)))
    for entries in where.values():
        positions = np.array([at for at, _ in entries])
        strengths = np.array([strength for _, strength in entries])
        kernel[np.ix_(positions, positions)] += np.outer(strengths, strengths)
    return kernel


def _length(row: Row) -> float:
    return sqrt(sum(one * one for one in row.values())) or 1.0


def fit(kernel: NDArray[np.float64], labels: Sequence[int], options: int) -> NDArray[np.float64]:
    """The part of each example in each option's score, examples by options.

    Args:
        kernel: the likeness of the examples, examples by examples.
        labels: the option of each example.
        options: number of options.
    """
    wanted = np.zeros((len(labels), options))
    wanted[np.arange(len(labels)), np.array(labels, dtype=np.intp)] = 1.0
    prior = np.log(wanted.sum(axis=0) + 1.0)
    parts = np.zeros_like(wanted)
    scale = PENALTY * len(labels) / options
    step = np.linalg.inv(0.5 * kernel + scale * np.eye(len(labels)))
    for _ in range(_STEPS):
        scores = kernel @ parts + prior
        scores -= scores.max(axis=1, keepdims=True)
        likely = np.exp(scores)
        likely /= likely.sum(axis=1, keepdims=True)
        parts -= step @ (likely - wanted + scale * parts)
    return parts


def weights(parts: NDArray[np.float64], rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
    """What each feature says for each option.

    Args:
        parts: what :func:`fit` gave.
        rows: the same examples' features.
    """
    totals: dict[str, NDArray[np.float64]] = {}
    for part, row in zip(parts, rows, strict=True):
        length = _length(row)
        for feature, strength in row.items():
            share = part * (strength / length)
            known = totals.get(feature)
            totals[feature] = share if known is None else known + share
    return {
        feature: tuple([round(float(one), _DIGITS) for one in total])
        for feature, total in sorted(totals.items())
    }
