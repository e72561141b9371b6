"""Asking a decider again: how often, how long, and when it is left alone."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.catalogs import RULES
from tests.unit.roles.bench import EFFORT, Clock, Counted, FakeLane, provider
from turnstream.core.effects import Undecided
from turnstream.core.ports import (
    DeciderRefused,
    DeciderUnavailable,
    DecisionRequest,
    Proposal,
    ReplyUnusable,
)
from turnstream.models.scripted import answer
from turnstream.roles.asking import Asking, Provider
from turnstream.stream import LaneClosing

REQUEST = DecisionRequest(
    agent="shop",
    locale="en",
    interactive=True,
    messages=(),
    latest="Hello",
    known={},
    tools=(),
    facts=(),
    answered_field=None,
    open_intent=None,
)
REPLY = answer("hours")
DOWN = DeciderUnavailable("down")


@dataclass
class Model:
    """A model behind a network: takes its time, and fails while it is told to."""

    clock: Clock
    failing: Exception | None = None
    seconds: float = 0.0
    asked_at: list[float] = field(default_factory=list)
    name: str = "model/1"

    def propose(self, _request: DecisionRequest) -> Awaitable[Proposal]:
        """Reply later."""
        self.asked_at.append(self.clock.now)

        async def later() -> Proposal:
            self.clock.now += self.seconds
            if self.failing is not None:
                raise self.failing
            return REPLY

        return later()


class Bench:
    """One input's view of a decider."""

    def __init__(self, *, failures: int = 100, **effort: Any) -> None:
        self.clock = Clock(0.0)
        self.lane: FakeLane[None] = FakeLane(self.clock)
        self.model = Model(self.clock)
        self.provider: Provider = provider(self.model, self.clock, failures=failures)
        self.counted = Counted(RULES.catalog)
        self.asking = Asking(
            replace(EFFORT, **effort), metrics=self.counted.metrics, clock=self.clock
        )

    async def ask(self, seed: str = "turns/0/7", lane: Any = None) -> Proposal | Undecided:
        """Ask on behalf of an input that begins now."""
        return await self.asking.ask(
            self.provider,
            REQUEST,
            lane=lane or self.lane,
            until=self.asking.until(),
            seed=seed,
        )

    def retried(self, failure: str) -> float:
        """How many attempts failed like this and were followed by another."""
        return self.counted.value("decider_retries_total", decider="model", failure=failure)

    def failed(self, failure: str) -> float:
        """How many attempts failed like this."""
        name = "decider_failed_attempts_total"
        return self.counted.value(name, decider="model", failure=failure)


def detail_of(reply: Proposal | Undecided) -> str:
    """Why there is no proposal."""
    assert isinstance(reply, Undecided)
    return reply.detail


async def test_the_waits_double_up_to_a_bound_and_are_spread_by_the_input() -> None:
    """The same input waits as long wherever it is tried, another one does not."""
    waits: list[Sequence[float]] = []
    for seed in ("turns/0/7", "turns/0/7", "turns/0/8"):
        bench = Bench(attempts=6)
        bench.model.failing = DOWN
        assert "no proposal in 6 attempts" == detail_of(await bench.ask(seed))
        waits.append(bench.lane.rests)
        assert 5 == bench.retried("unavailable")

    for wait, longest in zip(waits[0], (0.5, 1.0, 2.0, 4.0, 4.0), strict=True):
        assert longest / 2 <= wait < longest
    assert waits[0] == waits[1]
    assert not set(waits[0]) & set(waits[2])


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (TimeoutError(), "timeout"),
        (ConnectionResetError(), "unavailable"),
        (DOWN, "unavailable"),
        (DeciderUnavailable("429", retry_after_seconds=0.1), "rate_limit"),
        (ReplyUnusable("another form"), "unusable"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_what_passes_by_itself_is_tried_again(
    failure: Exception, kind: str, at_once: bool
) -> None:
    """Raised when asked or when awaited: a time-out, a broken connection, a rate limit."""
    bench = Bench()
    replies: Iterator[Exception | Proposal] = iter([failure, REPLY])

    def propose(_request: DecisionRequest) -> Proposal:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def later(request: DecisionRequest) -> Proposal:
        return propose(request)

    bench.model.propose = propose if at_once else later  # type: ignore[method-assign,assignment]

    found = await bench.ask()
    assert isinstance(found, Proposal)
    assert REPLY == replace(found, diagnostics=REPLY.diagnostics)
    assert {kind: 1} == found.diagnostics["in_all"]["failed_attempts"]  # type: ignore[call-overload,index]
    assert 1 == bench.retried(kind) == bench.failed(kind)
    assert 1 == len(bench.lane.rests)


async def test_what_failed_attempts_took_is_counted() -> None:
    """A stream that broke off was paid for; the last failure counts like the others."""
    bench = Bench(attempts=2)
    failure = DeciderUnavailable("a stream that broke off")
    failure.diagnostics = {"input_tokens": 30, "output_tokens": 4, "cost": 0.5, "currency": "USD"}
    bench.model.failing = failure
    await bench.ask()

    spent = bench.counted.value
    assert (1, 2) == (bench.retried("unavailable"), bench.failed("unavailable"))
    assert 60 == spent("decider_tokens_total", decider="model", direction="in")
    assert 8 == spent("decider_tokens_total", decider="model", direction="out")
    assert 1 == spent("decider_cost_total", decider="model", currency="USD")


async def test_a_refusal_is_reported_and_not_tried_again() -> None:
    """A provider that does not take our requests is the operator's: the log says what is wrong."""
    bench = Bench()
    bench.model.failing = DeciderRefused("the key is not accepted (status 401)")
    with capture_logs() as logs:
        reply = await bench.ask()

    assert "the decider refuses our requests" == detail_of(reply)
    assert 1 == len(bench.model.asked_at)
    assert [("error", "the key is not accepted (status 401)")] == [
        (one["log_level"], one["problem"]) for one in logs
    ]


async def test_a_defect_is_not_tried_again() -> None:
    """It is the stream's business, and says nothing of the decider's health."""
    bench = Bench(failures=1)
    bench.model.failing = ValueError("a defect")

    with pytest.raises(ValueError, match="a defect"):
        await bench.ask()

    assert not bench.provider.troubled
    assert [] == bench.lane.rests


@pytest.mark.parametrize(
    ("wanted", "waited"),
    [
        (7.0, 7.0),
        (59.0, 59.0),
        (60.0, None),
        (86_400.0, None),
        (0.0, 0.3),
        (-5.0, 0.3),
        (math.nan, 0.3),
        (math.inf, 0.3),
    ],
)
async def test_a_provider_that_wants_to_be_left_alone_is_as_far_as_the_turn_can_wait(
    wanted: float, waited: float | None
) -> None:
    """Beyond that a person takes over at once; what makes no sense is ignored."""
    bench = Bench()
    bench.model.failing = DeciderUnavailable("429", retry_after_seconds=wanted)

    reply = await bench.ask()

    assert isinstance(reply, Undecided)
    if waited is None:
        assert [] == bench.lane.rests
        assert 1 == len(bench.model.asked_at)
    else:
        assert [pytest.approx(waited, abs=0.2)] == bench.lane.rests
        assert 2 == len(bench.model.asked_at)


async def test_age_bounds_what_attempts_alone_would_not() -> None:
    """No attempt is begun after the patience, however many are left; the last one is waited for."""
    bench = Bench(attempts=10, patience=60.0)
    bench.model.failing = TimeoutError()
    bench.model.seconds = 20.0

    reply = await bench.ask()

    assert isinstance(reply, Undecided)
    assert 3 == len(bench.model.asked_at)
    assert max(bench.model.asked_at) < 60
    assert bench.clock.now <= 60 + 20

    late = await bench.asking.ask(
        bench.provider, REQUEST, lane=bench.lane, until=bench.clock.now, seed="s"
    )
    assert "no time: no attempt begins after 60 s" == detail_of(late)


async def test_a_decider_that_hangs_is_given_its_time_and_no_more() -> None:
    """A time-out of an attempt is a failure of the decider."""
    bench = Bench(attempts=1)

    async def never(_request: DecisionRequest) -> Proposal:
        await asyncio.Event().wait()
        raise AssertionError

    bench.model.propose = never  # type: ignore[method-assign]

    assert "no proposal in 1 attempts" == detail_of(await bench.ask())
    assert bench.provider.troubled


async def test_a_failing_decider_is_left_alone_by_all() -> None:
    """Those who come later ask nothing while it is, use up no attempts, and are given up by age."""
    bench = Bench(failures=3, attempts=3, patience=9.0)
    bench.model.failing = DOWN
    await bench.ask("first")
    assert 3 == len(bench.model.asked_at)
    assert bench.provider.is_open()

    reply = await bench.ask("second")

    assert "the decider is left alone after failures: no attempt begins after 9 s" == reply.detail  # type: ignore[union-attr]
    assert 3 == len(bench.model.asked_at)
    assert 0 == bench.retried("rate_limit")


@pytest.mark.parametrize("said", [ReplyUnusable("another form"), DeciderRefused("too long")])
async def test_what_it_says_to_a_few_keeps_nobody_else_from_asking(said: Exception) -> None:
    """A reply in another form and a refusal are replies: the decider is there."""
    bench = Bench(failures=2, attempts=3)
    bench.model.failing = said
    for seed in ("first", "second", "third"):
        assert isinstance(await bench.ask(seed), Undecided)
    assert not bench.provider.is_open()
    bench.model.failing = None

    assert REPLY == await bench.ask("fourth")


async def test_a_reply_in_another_form_brings_it_back() -> None:
    """The probe has been answered, so the others may ask."""
    bench = Bench(failures=1, attempts=1)
    bench.model.failing = DOWN
    await bench.ask()
    bench.clock.now += 10.0
    bench.model.failing = ReplyUnusable("another form")
    await bench.ask()

    assert not bench.provider.is_open()


async def test_a_refusal_of_the_probe_lets_the_next_one_try() -> None:
    """It may have been refused by us, before anything went out."""
    bench = Bench(failures=1, attempts=1)
    bench.model.failing = DOWN
    await bench.ask()
    bench.clock.now += 10.0
    bench.model.failing = DeciderRefused("no key")
    await bench.ask()
    assert bench.provider.is_open()
    bench.model.failing = None

    assert REPLY == await bench.ask()


async def test_being_left_alone_is_logged_with_the_last_problem() -> None:
    """So is the first attempt that failed, and not each of them."""
    bench = Bench(failures=3, attempts=3)
    bench.model.failing = DeciderUnavailable("Anna's order", problem="status 503")
    with capture_logs() as logs:
        await bench.ask()

    assert [
        {
            "event": "attempt at a proposal failed",
            "log_level": "warning",
            "decider": "model",
            "failure": "unavailable",
            "problem": "status 503",
        },
        {
            "event": "decider is left alone for a while",
            "log_level": "warning",
            "decider": "model",
            "last_problem": "status 503",
        },
    ] == logs


async def test_one_probe_brings_it_back_for_all() -> None:
    """After the cool-down one asks; the others wait for how that ends, then go on."""
    bench = Bench(failures=1, attempts=1, patience=60.0)
    bench.model.failing = DOWN
    await bench.ask("first")
    bench.clock.now = 5.0
    bench.model.failing = None
    probing = asyncio.Event()
    going_on = asyncio.Event()
    asked = 0

    async def slow(_request: DecisionRequest) -> Proposal:
        nonlocal asked
        asked += 1
        probing.set()
        await going_on.wait()
        return REPLY

    bench.model.propose = slow  # type: ignore[method-assign]
    effort = replace(EFFORT, timeout=5.0, attempts=1)
    bench.asking = Asking(effort, metrics=bench.counted.metrics, clock=bench.clock)

    class Turns(FakeLane[None]):
        async def rest(self, seconds: float) -> None:
            # All who wait look in turns; only the first moves the time.
            if not probing.is_set():
                await super().rest(seconds)
            await asyncio.sleep(0)

    lanes = [Turns(bench.clock) for _ in range(5)]
    tasks = [asyncio.create_task(bench.ask(f"{n}", lane)) for n, lane in enumerate(lanes)]
    await probing.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert 1 == asked
    going_on.set()

    assert [REPLY] * 5 == await asyncio.gather(*tasks)
    assert not bench.provider.is_open()
    assert not bench.provider.troubled


async def test_a_probe_that_breaks_off_lets_the_next_one_try() -> None:
    """A partition that is given up in the middle of it keeps nobody out."""
    bench = Bench(failures=1, attempts=1)
    bench.model.failing = DOWN
    await bench.ask()
    bench.clock.now += 10.0
    bench.model.failing = asyncio.CancelledError()  # type: ignore[assignment]
    with pytest.raises(asyncio.CancelledError):
        await bench.ask()
    bench.model.failing = None

    assert REPLY == await bench.ask()


async def test_a_partition_that_is_given_up_ends_the_wait() -> None:
    """Nothing is decided in its place: the next owner asks again."""
    bench = Bench()
    bench.model.failing = DOWN

    class Closing(FakeLane[None]):
        async def rest(self, seconds: float) -> None:
            raise LaneClosing(f"{seconds}")

    with pytest.raises(LaneClosing):
        await bench.ask(lane=Closing())


async def test_an_attempt_that_has_begun_is_the_first() -> None:
    """Whether it is waited for, or has failed already."""
    bench = Bench(attempts=2)
    begun: Callable[[], Any]
    for begun in (lambda: DOWN, lambda: bench.model.propose(REQUEST)):
        bench.model.asked_at.clear()
        bench.model.failing = DOWN
        reply = await bench.asking.ask(
            bench.provider,
            REQUEST,
            lane=bench.lane,
            until=bench.asking.until(),
            seed="s",
            begun=begun(),
        )

        assert "no proposal in 2 attempts" == detail_of(reply)
    assert 2 == len(bench.model.asked_at)
