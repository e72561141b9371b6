"""Every metric: its name, its labels and their allowed values."""

from turnstream.metrics.catalogue import CATALOGUE, OTHER, Metric, Scope
from turnstream.metrics.container import Metrics, Pending
from turnstream.metrics.server import Heartbeat, MetricsAddressUnusable, MetricsServer

__all__ = [
    "CATALOGUE",
    "OTHER",
    "Heartbeat",
    "Metric",
    "Metrics",
    "MetricsAddressUnusable",
    "MetricsServer",
    "Pending",
    "Scope",
]
