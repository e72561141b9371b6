"""Finding the series of label values."""

import pytest
from prometheus_client import CollectorRegistry

from turnstream.metrics import Metric
from turnstream.metrics.series import counters

COUNTER = Metric("seen_total", "counter", "things", "Things.", {"kind": ("a", "b")})


def test_only_closed_values_are_kept() -> None:
    """Any other label value is counted with the rest, and leaves no trace."""
    registry = CollectorRegistry()
    series = counters(COUNTER, {}, registry)
    for number in range(1_000):
        series[f"made-up-{number}",].inc()
    series["a",].inc()

    assert {("other",), ("a",)} == series.keys()
    counted = [registry.get_sample_value("seen_total", {"kind": one}) for one in ("a", "other")]
    assert [1.0, 1_000.0] == counted


def test_a_metric_is_counted_with_all_of_its_labels() -> None:
    """Too few or too many values are a mistake of ours, not a series."""
    series = counters(COUNTER, {}, CollectorRegistry())
    for values in ((), ("a", "b")):
        with pytest.raises(ValueError, match="zip"):
            series[values].inc()
