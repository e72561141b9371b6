"""For each protection a small run that provokes exactly the fault that it prevents.

The same run with the protection in force must show nothing. Failpoints make the moment certain.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos import logs, shop
from tests.chaos.checker import Finding
from tests.chaos.stage import PARTITIONS, SESSION_SECONDS, Stage, said, staged, until


@dataclass(frozen=True, slots=True)
class Provocation:
    """A run and what it shows without its protection."""

    play: Callable[[Stage, str | None], Awaitable[None]]
    """Takes the stage and the protection that is switched off."""
    finding: str
    """The check that must fail."""
    with_calls: bool = False
    crashes: bool = True


async def provoke(
    bootstrap: str, name: str, folder: Path, *, off: bool, prefix: str
) -> list[Finding]:
    """Carry out the run of a protection; give what the checker finds.

    Args:
        bootstrap: the broker's address.
        name: of the protection.
        folder: for configuration and logs.
        off: whether the protection is switched off in the workers.
        prefix: of topics and groups.
    """
    one = PROVOCATIONS[name]
    async with staged(bootstrap, prefix, folder, with_calls=one.with_calls) as stage:
        stage.crashed = one.crashes
        await one.play(stage, name if off else None)
        if off:
            await _until_found(stage, one.finding)
        else:
            await stage.until_complete()
        return stage.check()


async def _until_found(stage: Stage, wanted: str, *, seconds: float = 60) -> None:
    """Wait for the finding; without it the caller sees that there is none."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if any(one.check == wanted for one in stage.check()):
            return
        await asyncio.sleep(0.5)


# --- the runs -------------------------------------------------------------------------------------


async def _say(stage: Stage, texts: Sequence[tuple[str, str]]) -> None:
    """Send customer turns: conversation and text, in this order."""
    for number, (key, text) in enumerate(texts):
        await stage.send("conversation.turns", said(key, number, text))


def _keys(stage: Stage, count: int, *, stem: str = "k") -> list[str]:
    """Give conversations of partition 0."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        if stage.partition(f"{stem}-{number}") == 0:
            found.append(f"{stem}-{number}")
        number += 1
    return found


def _in_turns(keys: Sequence[str]) -> list[tuple[str, str]]:
    """Give turns that are decided in three groups, so that there are three transactions at least.

    How many more there are is a question of how busy the machine is.
    """
    return [(key, f"wait:{500 * (number % 3)}") for number, key in enumerate(keys)]


async def _crash_behind_a_slow_turn(stage: Stage, off: str | None) -> None:
    """The first turn takes long, others are finished and committed, the process dies."""
    slow, *others = _keys(stage, 61)
    await _say(stage, [(slow, "wait:8000"), *_in_turns(others)])
    first = await stage.start("decide", failpoints="after_commit=crash@2", without=off)
    assert await stage.exit_status(first) == -signal.SIGKILL, first.log.read_text()
    await stage.start("decide", without=off)


async def _crash_between_records_and_offsets(stage: Stage, off: str | None) -> None:
    """The process dies when the records of a transaction are out and the rest is not."""
    await _say(stage, _in_turns(_keys(stage, 60)))
    first = await stage.start("decide", failpoints="after_send=crash@2", without=off)
    assert await stage.exit_status(first) == -signal.SIGKILL, first.log.read_text()
    await stage.start("decide", without=off)


async def _wake_before_a_transaction(stage: Stage, off: str | None) -> None:
    """A process is suspended with decisions that another one makes meanwhile, and goes on."""
    await _say(stage, _in_turns(_keys(stage, 60)))
    zombie = await stage.start("decide", failpoints="before_begin=stop@2", without=off)
    await until(lambda: zombie.suspended or zombie.ended, zombie.log.read_text)
    await stage.start("decide", without=off)
    await stage.until_complete()
    zombie.send(signal.SIGCONT)
    if off is None:
        await stage.exit_status(zombie)


async def _take_over_a_backlog(stage: Stage, off: str | None) -> None:
    """A process finds turns of before its start, and gets others afterwards."""
    early, late = _keys(stage, 60), _keys(stage, 20, stem="late")
    await _say(stage, [(key, "when do you open?") for key in early])
    worker = await stage.start("decide", without=off)
    await stage.until_open(worker)
    await _say(stage, [(key, "when do you open?") for key in late])


async def _crash_after_a_call(stage: Stage, off: str | None) -> None:
    """The executor dies between the reply and its own last word."""
    await _say(stage, [(key, "refund A-1") for key in _keys(stage, 8)])
    await stage.start("decide")
    await stage.start("answer")
    first = await stage.start("execute", failpoints="after_call=crash@3", without=off)
    assert await stage.exit_status(first) == -signal.SIGKILL, first.log.read_text()
    await stage.start("execute", without=off)


async def _wake_before_a_call(stage: Stage, off: str | None) -> None:
    """An executor is suspended before its call; another has reported it when it goes on."""
    await _say(stage, [(key, "refund A-1") for key in _keys(stage, 8)])
    await stage.start("decide")
    await stage.start("answer")
    zombie = await stage.start("execute", failpoints="after_started=stop@2", without=off)
    await until(lambda: zombie.suspended or zombie.ended, zombie.log.read_text)
    await stage.start("execute", without=off)
    await asyncio.sleep(SESSION_SECONDS)
    await stage.until_complete()
    zombie.send(signal.SIGCONT)
    if off is None:
        await stage.exit_status(zombie)


async def _join_during_calls(stage: Stage, off: str | None) -> None:
    """A second executor joins while the first is in the middle of calls that take a while."""
    await stage.start("decide")
    await stage.start("answer")
    first = await stage.start("execute", without=off)
    await stage.until_open(first)
    await _say(stage, [("j", f"refund {shop.SLOW_ORDER}1")])
    await until(lambda: bool(logs.effects(stage.folder)), "a call")
    second = await stage.start("execute", without=off)
    number = 0
    # However long it takes to join: three times the calls of one look are always under way.
    while not second.ended and not second.said("lanes open"):
        keys = [f"j-{number + each}" for each in range(PARTITIONS)]
        await _say(stage, [(key, f"refund {shop.SLOW_ORDER}1") for key in keys])
        number += len(keys)
        await asyncio.sleep(0.5)


PROVOCATIONS: Final[Mapping[str, Provocation]] = {
    "transactions": Provocation(_crash_between_records_and_offsets, "decided_twice"),
    "stable_transactional_id": Provocation(_wake_before_a_transaction, "decided_twice"),
    "offset_prefix": Provocation(_crash_behind_a_slow_turn, "offset_passed"),
    "deferred_resume": Provocation(_crash_behind_a_slow_turn, "decided_twice"),
    "explicit_seek": Provocation(_take_over_a_backlog, "offset_passed"),
    "watermark": Provocation(_crash_behind_a_slow_turn, "decided_twice"),
    "restore_by_position": Provocation(_crash_behind_a_slow_turn, "decided_twice"),
    "journal": Provocation(_crash_after_a_call, "done_twice", with_calls=True),
    "heartbeat_check": Provocation(_wake_before_a_call, "done_late", with_calls=True),
    "quiesce": Provocation(_join_during_calls, "unknown_unforced", with_calls=True, crashes=False),
}
"""Name of each protection to what shows that it is needed."""
