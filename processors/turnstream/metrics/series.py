"""The series of counters and histograms by their closed label values, found by one look-up."""

from collections.abc import Callable, Collection, Mapping
from typing import Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram

from turnstream.metrics.catalogue import OTHER, Metric, Scope

Lists = Mapping[Scope, Collection[str]]
"""The closed lists that only the running process knows."""


class Counting(Protocol):
    """One series of a counter."""

    def inc(self, amount: float = 1) -> None:
        """Add an amount, which is never negative."""
        ...


class Observing(Protocol):
    """One series of a histogram."""

    def observe(self, amount: float) -> None:
        """Count an amount in its bucket."""
        ...


C = TypeVar("C")


class Series(dict[tuple[str, ...], C], Generic[C]):
    """The series of one metric by their label values; any other values find the one they fall in.

    A dict, because Python calls nothing for a key that is there. Values outside the closed lists
    become ``other`` and are never kept: there is no end of them.
    """

    def __init__(self, metric: Metric, lists: Lists, child: Callable[[tuple[str, ...]], C]) -> None:
        """Begin with no series, or with the only one where the metric has no labels."""
        super().__init__()
        self._child = child
        self._allowed = tuple(
            frozenset(lists[allowed] if isinstance(allowed, Scope) else allowed)
            for allowed in metric.labels.values()
        )
        if not self._allowed:
            self[()] = child(())

    def __missing__(self, values: tuple[str, ...]) -> C:
        closed = tuple(
            value if value in allowed else OTHER
            for value, allowed in zip(values, self._allowed, strict=True)
        )
        if closed not in self:
            self[closed] = self._child(closed)
        return self[closed]


def counters(metric: Metric, lists: Lists, registry: CollectorRegistry) -> Series[Counting]:
    """Register a counter of the catalogue."""
    family = Counter(metric.name, metric.help, tuple(metric.labels), registry=registry)
    return Series(metric, lists, lambda values: family.labels(*values) if values else family)


def histograms(metric: Metric, lists: Lists, registry: CollectorRegistry) -> Series[Observing]:
    """Register a histogram of the catalogue."""
    family = Histogram(
        metric.name,
        metric.help,
        tuple(metric.labels),
        registry=registry,
        buckets=metric.buckets,
    )
    return Series(metric, lists, lambda values: family.labels(*values) if values else family)
