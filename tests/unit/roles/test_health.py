"""When a role's page asks for a restart, and what it shows beside."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests import small_shop
from turnstream.core.definitions import Catalog
from turnstream.metrics import Heartbeat
from turnstream.roles.health import Health, stall_limit
from turnstream.stream import StreamSettings


@dataclass
class Stalls:
    """Stands for what the stream has seen."""

    seconds: float = 0.0

    def longest(self) -> float:
        """Return it."""
        return self.seconds


@dataclass
class Ownership:
    """Stands for the lanes."""

    stalls: Stalls = field(default_factory=Stalls)
    oldest: int | None = None

    def oldest_unfinished(self) -> int | None:
        """Return it."""
        return self.oldest


def settings(**changes: Any) -> StreamSettings:
    """A role's stream."""
    return StreamSettings(
        bootstrap_servers="nowhere:1",
        group="g",
        role="decide",
        sources=("turns",),
        changelog="c",
        **changes,
    )


def limit(catalog: Catalog, stream: StreamSettings | None = None, **changes: float) -> float:
    """The stall limit with a decider that is waited for at most 15 seconds."""
    given = {"decider_patience_seconds": 5.0, "decider_timeout_seconds": 10.0} | changes
    return stall_limit(
        stream or settings(),
        catalog=catalog,
        decider_patience_seconds=given["decider_patience_seconds"],
        decider_timeout_seconds=given["decider_timeout_seconds"],
    )


@pytest.fixture
def catalog() -> Catalog:
    """The small shop's."""
    return Catalog.model_validate(small_shop.CATALOG)


def test_only_what_a_restart_helps_is_a_problem() -> None:
    """A silent loop, a stall beyond the limit; an old record is shown and is none."""
    now = 100.0
    heart = Heartbeat(clock=lambda: now)
    ownership = Ownership()
    health = Health(heart, ownership, 300.0, now_ms=lambda: 1_000_000)  # type: ignore[arg-type]

    assert [] == health.problems()
    assert {"oldest_unfinished_seconds": None, "uncommitted_seconds": 0.0} == health.facts()

    ownership.oldest = 40_000
    ownership.stalls.seconds = 300.0

    assert [] == health.problems()
    assert {"oldest_unfinished_seconds": 960.0, "uncommitted_seconds": 300.0} == health.facts()

    ownership.stalls.seconds = 301.0
    now = 120.0

    silent, still = health.problems()

    assert "the event loop has not run for 20 s" == silent
    assert (
        "records are in flight and nothing was committed for 301 s, though a handler and its "
        "commit take at most 300 s"
    ) == still


def test_a_record_of_the_future_is_no_negative_age() -> None:
    """Clocks differ: a turn said to be written in five seconds is shown as new."""
    ownership = Ownership(oldest=1_005_000)
    health = Health(Heartbeat(), ownership, 300.0, now_ms=lambda: 1_000_000)  # type: ignore[arg-type]

    assert 0.0 == health.facts()["oldest_unfinished_seconds"]


def test_the_limit_is_the_sum_of_all_waits(catalog: Catalog) -> None:
    """In each attempt the longest call, a commit and the back-off; then the last commit."""
    stream = settings(attempts=2, request_timeout_ms=40_000, retry_backoff_max_ms=5_000)

    # Nobody waits longer here than a tool, asked three times: time-out, back-off, Retry-After.
    assert 2 * (3 * (5 + 5 + 10) + 40 + 5) + 40 == limit(catalog, stream)
    assert 2 * (150 + 50 + 40 + 5) + 40 == limit(
        catalog, stream, decider_patience_seconds=150, decider_timeout_seconds=50
    )


def test_a_slow_tool_is_no_stall(catalog: Catalog) -> None:
    """Its attempts and the waits between them are within the limit."""
    name, tool = next(iter(catalog.tools.items()))
    slow = tool.model_copy(
        update={
            "timeout_seconds": 100.0,
            "retry": tool.retry.model_copy(update={"attempts": 4, "max_backoff_seconds": 7.0}),
        }
    )
    changed = catalog.model_copy(update={"tools": {**catalog.tools, name: slow}})
    stream = settings(attempts=1, request_timeout_ms=40_000, retry_backoff_max_ms=5_000)

    assert 4 * 117 + 40 + 5 + 40 == limit(changed, stream)


def test_asking_what_became_of_a_call_is_no_stall(catalog: Catalog) -> None:
    """A tool that can be asked is waited for once, and asked before and after the call."""
    name, tool = next(iter(catalog.tools.items()))
    binding = tool.binding.model_copy(update={"reconcile": "anywhere:anything"})
    asked = tool.model_copy(update={"binding": binding, "timeout_seconds": 10.0})
    changed = catalog.model_copy(update={"tools": {**catalog.tools, name: asked}})
    stream = settings(attempts=1, request_timeout_ms=40_000, retry_backoff_max_ms=5_000)

    questions = 3 * (10 + 5)
    assert 10 + 3 * 25 + 2 * questions + 40 + 5 + 40 == limit(changed, stream)
