"""Failpoints: named places between two steps of the protocol where a test lets a process fail.

Off unless the environment of a process sets them, and then at no cost but a look at :data:`armed`:

    TURNSTREAM_FAILPOINTS="after_commit=crash@17,before_commit=delay:500@3"

`crash` ends the process as `kill -9` would, `stop` suspends it until somebody sends SIGCONT,
`delay:MS` waits, `raise` fails there. `@n` is the n-th time that the place is reached, the first
when not given; `@n+` is that time and every later one. A name or an action that does not exist
refuses the start, so that no test passes because its fault never happened.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, get_args

from turnstream.stream.role import StartRefused

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

T = TypeVar("T")

logger = logging.getLogger(__name__)

VARIABLE: Final = "TURNSTREAM_FAILPOINTS"
"""The environment variable that sets failpoints in a process."""

Point = Literal[
    "before_first_commit",
    "after_first_commit",
    "before_fence",
    "after_fence",
    "during_restore",
    "after_restore",
    "after_committed",
    "after_seek",
    "after_intake_open",
    "after_step",
    "after_enter",
    "before_begin",
    "after_begin",
    "after_send",
    "before_commit",
    "after_commit",
    "after_store",
    "after_intake_closed",
    "after_handlers",
    "after_last_commit",
    "after_lanes_closed",
    "before_started",
    "after_started",
    "during_call",
    "after_call",
    "before_restarted",
    "after_restarted",
    "before_reconcile",
    "during_reconcile",
    "after_reconcile",
]

POINTS: Final[Mapping[Point, str]] = {
    # The first start of a group.
    "before_first_commit": "the broker has the offsets that the group starts from, uncommitted",
    "after_first_commit": "those offsets are committed, the group is not joined",
    # Assignment.
    "before_fence": "partitions are assigned, their lanes not open: the former owner can commit",
    "after_fence": "the lanes are open, no state is read",
    "during_restore": "a part of the changelog has been read",
    "after_restore": "the committed state is loaded, no offset is known",
    "after_committed": "the committed offsets are known, nothing is sought",
    "after_seek": "every source partition is sought, the intake is closed",
    "after_intake_open": "the intake is open, nothing has been fetched",
    # One input.
    "after_step": "a handler has given its outcome, the lane does not have it",
    "after_enter": "the lane has the outcome, in no transaction yet",
    # One transaction.
    "before_begin": "what goes into the transaction is fixed, the transaction has not begun",
    "after_begin": "the transaction has begun and is empty",
    "after_send": "records are handed to the producer, the offsets are not",
    "before_commit": "the broker has records and offsets, uncommitted",
    "after_commit": "the transaction is committed, the store does not have it",
    "after_store": "the store has it, whoever waits does not know",
    # Revoke and stop.
    "after_intake_closed": "nothing more is taken, handlers run",
    "after_handlers": "the handlers have ended, what they finished may be uncommitted",
    "after_last_commit": "everything finished is committed, the producers are connected",
    "after_lanes_closed": "the producers are disconnected, the partitions not given up",
    # One call of the executor.
    "before_started": "a call was decided, its journal record is not written",
    "after_started": "STARTED is committed, the call has not begun",
    "during_call": "the call is under way, its reply is not there",
    "after_call": "the reply is there, DONE is not committed",
    # One more attempt at it.
    "before_restarted": "an attempt failed and the next was decided, the journal does not say so",
    "after_restarted": "STARTED of the next attempt is committed, its call has not begun",
    # A call that nobody has a reply of.
    "before_reconcile": "a call may have been carried out, its tool has not been asked",
    "during_reconcile": "the tool is being asked, its word is not there",
    "after_reconcile": "the tool's word is there, nothing that follows from it is committed",
}
"""Every failpoint and what is true there."""

Action = Literal["crash", "delay", "raise", "stop"]

_RULE: Final = re.compile(
    r"(?P<point>[a-z_]+)=(?P<action>crash|raise|stop|delay:(?P<ms>[0-9]{1,6}))"
    r"(?:@(?P<hit>[1-9][0-9]{0,8})(?P<onward>\+)?)?",
    re.ASCII,
)


class FailpointReached(Exception):
    """A failpoint was set to raise."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a failpoint does, and when."""

    point: Point
    action: Action
    delay_ms: int = 0
    hit: int = 1
    """The time that the place is reached at which it happens."""
    onward: bool = False
    """Whether it happens at every later time as well."""

    def applies(self, hit: int) -> bool:
        """Tell whether it happens the `hit`-th time."""
        return hit == self.hit or (self.onward and hit > self.hit)


class Failpoints:
    """The failpoints of this process; counts how often each is reached."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Set failpoints."""
        self._rules = tuple(rules)
        self.hits: Counter[Point] = Counter()

    async def reach(self, point: Point) -> None:
        """Do what is set for a place, where waiting lets everything else go on."""
        for rule in self._due(point):
            if rule.action == "delay":
                await asyncio.sleep(rule.delay_ms / 1000)
            else:
                _fail(rule)

    def pass_by(self, point: Point) -> None:
        """Do what is set for a place that cannot wait: a delay holds up the event loop there."""
        for rule in self._due(point):
            if rule.action == "delay":
                time.sleep(rule.delay_ms / 1000)
            else:
                _fail(rule)

    async def during(self, point: Point, work: Coroutine[Any, Any, T]) -> T:
        """Do what is set for a place in the middle of something that has begun."""
        task = asyncio.create_task(work)
        # A task begins in the next round of the event loop.
        await asyncio.sleep(0)
        try:
            await self.reach(point)
            return await task
        finally:
            task.cancel()

    def _due(self, point: Point) -> list[Rule]:
        self.hits[point] += 1
        hit = self.hits[point]
        due = [rule for rule in self._rules if rule.point == point and rule.applies(hit)]
        for rule in due:
            logger.warning("failpoint %s, reached %s times: %s", point, hit, rule.action)
        return due


armed: Failpoints | None = None
"""None in production: the only thing that a failpoint's place looks at."""


def arm(environment: Mapping[str, str]) -> None:
    """Set the failpoints that an environment names, none if it names none.

    Raises:
        StartRefused: The variable names no failpoint, or no action.
    """
    global armed  # noqa: PLW0603 - one process has one set, and looking must cost nothing
    text = environment.get(VARIABLE, "")
    if not text:
        armed = None
        return
    rules = parse(text)
    logger.warning(
        "FAILPOINTS ARE SET: this process will fail on purpose. Unset %s in production: %s",
        VARIABLE,
        text,
    )
    armed = Failpoints(rules)


def parse(text: str) -> tuple[Rule, ...]:
    """Read the value of the variable.

    Raises:
        StartRefused: A part of it is not `point=action`, or there is no such point.
    """
    rules: list[Rule] = []
    for part in text.split(","):
        found = _RULE.fullmatch(part.strip())
        if found is None or found["point"] not in POINTS:
            message = (
                f"{VARIABLE}: {part.strip()!r} is no failpoint: write POINT=crash, POINT=raise, "
                f"POINT=stop or POINT=delay:MS, then @n or @n+; the points are {', '.join(POINTS)}"
            )
            raise StartRefused(message)
        action = found["action"].partition(":")[0]
        rules.append(
            Rule(
                point=cast("Point", found["point"]),
                action=cast("Action", action),
                delay_ms=int(found["ms"] or 0),
                hit=int(found["hit"] or 1),
                onward=found["onward"] is not None,
            )
        )
    return tuple(rules)


def _fail(rule: Rule) -> None:
    if rule.action == "raise":
        message = f"failpoint {rule.point}"
        raise FailpointReached(message)
    os.kill(os.getpid(), signal.SIGKILL if rule.action == "crash" else signal.SIGSTOP)


if set(get_args(Point)) != set(POINTS):
    message = "every failpoint is described, and nothing else"
    raise AssertionError(message)


async def reach(point: Point) -> None:
    """Pass a point; nothing happens unless this process was told to fail there."""
    if armed is not None:
        await armed.reach(point)
