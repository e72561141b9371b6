"""Asking a decider again and again, within bounds, while only its own conversation waits.

An attempt fails when it times out, when the connection breaks, or when the decider says that it is
unavailable. Then the input rests - its slot of the process is lent to others - and asks again,
until

- a proposal comes,
- the attempts at this proposal are used up,
- the next attempt could only begin when the input's patience is over, because of the back-off or
  because the provider itself wants to be left alone longer (Retry-After).

One that does not take our requests at all (a wrong key, an unknown model) is not asked again for
the input: the log names the problem at level error, and a person takes over. Why other attempts
failed is logged as well, now and then.

A decider that fails several times in a row is left alone by all conversations of the process. They
rest without using up their attempts: attempts are for finding out, and here it is known already.
After the cool-down one of them asks; when it succeeds, the others go on. A short outage so costs
nobody a handoff, and a long one costs each input its patience once. A reply that is not in its form
is no such failure, nor is a refusal: the decider is there, and what becomes of one conversation
says nothing of the others.

Patience begins with the first attempt in this process, on a clock that never goes back: a crash or
a rebalance begins it anew. How old a *turn* may be is another limit (`max_turn_age_seconds`).
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog
from pydantic import JsonValue

from turnstream.core.effects import Undecided
from turnstream.core.ports import (
    Decider,
    DeciderRefused,
    DeciderUnavailable,
    DecisionRequest,
    Proposal,
    ReplyUnusable,
)
from turnstream.metrics import Metrics
from turnstream.roles.breaker import CircuitBreaker
from turnstream.roles.failed_attempts import (
    TRANSIENT,
    Failure,
    FailureKind,
    Notices,
    kind_of,
    reason_of,
)
from turnstream.roles.spending import Spending, count_spent
from turnstream.stream.backoff import backoff

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 2.0
"""Longest wait between two looks at a decider that is left alone: what those who wait are late
after its return. Shorter ones would keep a process busy in which ten thousand wait."""


class Resting(Protocol):
    """Where an input waits: its lane."""

    async def rest(self, seconds: float) -> None:
        """Wait between two attempts, without the slot."""
        ...


@dataclass(slots=True)
class Provider:
    """A decider, and what is known of its health in this process."""

    name: str
    """Its configured name, from a closed list."""
    decider: Decider
    breaker: CircuitBreaker
    notices: Notices = field(default_factory=Notices)
    troubled: bool = False
    """Whether it has failed since its last reply. While it has not, the breaker need not be
    asked."""

    def succeeded(self) -> None:
        """It has replied."""
        if self.troubled:
            if self.is_open():
                log.info("decider is back", decider=self.name)
            self.troubled = False
            self.breaker.succeeded()

    def failed(self, failure: Failure) -> None:
        """It could not be had, or what it said could not be used."""
        self.notices.failed(self.name, failure, _kind(failure))
        if isinstance(failure, ReplyUnusable):
            self.succeeded()
            return
        if isinstance(failure, DeciderRefused):
            # It may have been refused on the way, by us: whether it is back nobody knows.
            self.broke_off()
            return
        before = self.breaker.state
        self.troubled = True
        self.breaker.failed()
        if before == "closed" and self.is_open():
            log.warning(
                "decider is left alone for a while",
                decider=self.name,
                last_problem=reason_of(failure),
            )

    def broke_off(self) -> None:
        """An attempt ended in a way that says nothing of it; a probe must not stay open."""
        if self.breaker.state == "half_open":
            self.breaker.failed()

    def is_open(self) -> bool:
        """Tell whether it is left alone, or only tried."""
        return self.breaker.state != "closed"


Begun = Awaitable[Proposal] | Failure
"""An attempt that has begun: a reply to wait for, or how it failed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard a proposal is tried for; times in seconds. See `DecideSettings`."""

    attempts: int
    timeout: float
    backoff: float
    backoff_max: float
    patience: float


class Asking:
    """Asks deciders for proposals."""

    def __init__(
        self,
        effort: Effort,
        *,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            effort: the bounds.
            metrics: where attempts are counted.
            clock: a clock that never goes back, in seconds.
        """
        self._effort = effort
        self._metrics = metrics
        self._clock = clock

    def until(self) -> float:
        """When the patience of an input ends that begins now."""
        return self._clock() + self._effort.patience

    async def ask(
        self,
        provider: Provider,
        request: DecisionRequest,
        *,
        lane: Resting,
        until: float,
        seed: str,
        begun: Begun | None = None,
        spending: Spending | None = None,
    ) -> Proposal | Undecided:
        """Get a proposal, or why there is none.

        Args:
            provider: who is asked.
            request: for what.
            lane: where to wait.
            until: the end of the input's patience; see `until`.
            seed: names the input; waits are spread by it.
            begun: the first attempt, where it has begun already.
            spending: what the decision has taken so far; it is added to.

        Raises:
            LaneClosing: the partition is given up.
        """
        spending = Spending() if spending is None else spending
        for attempt in range(1, self._effort.attempts + 1):
            if begun is None and not await self._allowed(provider, lane=lane, until=until):
                left_alone = provider.is_open()
                why = "the decider is left alone after failures" if left_alone else "no time"
                return spending.undecided(
                    f"{why}: no attempt begins after {self._effort.patience:g} s"
                )
            reply = await self._attempt(provider, request, begun)
            begun = None
            self._count(provider, reply)
            if isinstance(reply, Proposal):
                return spending.reply(reply)
            spending.failure(_kind(reply), _spent(reply))
            if isinstance(reply, DeciderRefused):
                return spending.undecided("the decider refuses our requests")
            if attempt == self._effort.attempts:
                break
            wait = max(self._backoff(attempt, seed), _retry_after(reply))
            if self._clock() + wait >= until:
                return spending.undecided(
                    f"no proposal in {attempt} attempts: none begins after "
                    f"{self._effort.patience:g} s"
                )
            self._metrics.decider_retried(provider.name, failure=_kind(reply))
            await lane.rest(wait)
        return spending.undecided(f"no proposal in {self._effort.attempts} attempts")

    def _count(self, provider: Provider, reply: Proposal | Failure) -> None:
        if not isinstance(reply, Proposal):
            self._metrics.decider_attempt_failed(provider.name, failure=_kind(reply))
        count_spent(self._metrics, provider.name, _spent(reply))

    async def _allowed(self, provider: Provider, *, lane: Resting, until: float) -> bool:
        """Wait until the decider may be asked; false when the patience is over."""
        while (left := until - self._clock()) > 0:
            if not provider.troubled or provider.breaker.allows():
                return True
            await lane.rest(min(_LOOK_SECONDS, left))
        return False

    async def _attempt(
        self, provider: Provider, request: DecisionRequest, begun: Begun | None
    ) -> Proposal | Failure:
        asked_at = time.perf_counter()
        try:
            if isinstance(begun, TRANSIENT):
                raise begun
            reply = provider.decider.propose(request) if begun is None else begun
            if not isinstance(reply, Proposal):
                # Not `wait_for`: before Python 3.12 it starts a task for each reply.
                async with asyncio.timeout(self._effort.timeout):
                    reply = await reply
        except TRANSIENT as failure:
            provider.failed(failure)
            return failure
        except BaseException:
            provider.broke_off()
            raise
        provider.succeeded()
        self._metrics.proposed(time.perf_counter() - asked_at)
        return reply

    def _backoff(self, attempt: int, seed: str) -> float:
        effort = self._effort
        return backoff(attempt, first=effort.backoff, longest=effort.backoff_max, seed=seed)


def _retry_after(failure: Failure) -> float:
    """Seconds that the provider wants to be left alone; what makes no sense is ignored."""
    wanted = failure.retry_after_seconds if isinstance(failure, DeciderUnavailable) else None
    return wanted if wanted is not None and math.isfinite(wanted) and wanted > 0 else 0.0


def _spent(reply: Proposal | Failure) -> Mapping[str, JsonValue]:
    """What an attempt took, as far as it says so."""
    return reply.diagnostics if isinstance(reply, Proposal | DeciderUnavailable) else {}


def _kind(failure: Failure) -> FailureKind:
    return kind_of(failure, wants_rest=_retry_after(failure) > 0)
