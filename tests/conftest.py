"""Fixtures that every folder shares: brokers, names of topics, and deterministic properties."""

import os
import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.network import NETWORK
from turnstream.demo.embedded import EmbeddedBroker
from turnstream.demo.kafka import KafkaBroker

# The same examples on every run: a failure in CI is the failure seen here. No deadline and no
# check of the generation's speed, because how busy the machine is says nothing about the code.
settings.register_profile(
    "turnstream",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("turnstream")

# What a test gets from elsewhere, the next run may not get.
NETWORK.install()

# A shell starts what it puts into the background with SIGINT ignored, and every process that the
# tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# And `nohup` one that outlives its terminal.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


MEASURED = tuple(
    Path(__file__).parent / folder for folder in ("unit/core", "unit/roles", "properties", "replay")
)
"""Tests whose coverage of the core counts: in all others measuring costs time and shows nothing."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what uses a broker, so that `-m "not kafka"` never starts one by accident.

    And what is not measured for coverage.
    """
    for item in items:
        if not any(item.path.is_relative_to(folder) for folder in MEASURED):
            item.add_marker(pytest.mark.no_cover)
        names = getattr(item, "fixturenames", ())
        if "kafka_bootstrap" in names:
            item.add_marker(pytest.mark.kafka)
        if "embedded_bootstrap" in names:
            item.add_marker(pytest.mark.embedded)


@pytest.fixture(autouse=True)
def _this_machine_only(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that reaches for another machine, whatever became of the error."""
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    NETWORK.open = bool(named) and request.node.get_closest_marker("kafka") is not None
    yield
    NETWORK.open = False
    attempts = NETWORK.attempts()
    assert not attempts, f"this test, or what it left running, tried {', '.join(attempts)}"


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    """The address of the run's one real Kafka, or of the cluster the environment names."""
    named = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    if named:
        yield named
        return
    with KafkaBroker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def embedded_bootstrap() -> Iterator[str]:
    """The address of the run's one in-process broker."""
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> str:
    """A prefix for topics and groups that no other test and no other run has, ending in a dot."""
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    return f"{slug}-{uuid.uuid4().hex[:12]}."
