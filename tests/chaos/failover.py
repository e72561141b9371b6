"""How long the partitions of a killed worker wait until somebody decides for them again."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos.stage import PARTITIONS, SESSION_SECONDS, Stage, staged, until
from tests.chaos.traffic import Traffic

_OPEN: Final = re.compile(r"lanes open: ([0-9, ]+)", re.ASCII)
_TURNS: Final = 100_000
"""More than are sent while it is measured."""


@dataclass(frozen=True, slots=True)
class Failover:
    """What was measured; times in seconds from the kill."""

    partitions: int
    first: float
    """Until the first of its partitions was decided again."""
    last: float
    """Until the last one was."""
    session: float


async def failover(bootstrap: str, folder: Path) -> Failover:
    """Kill one of two decide workers under load and wait until its partitions go on."""
    async with staged(bootstrap, "failover.", folder, with_calls=False) as stage:
        sending = asyncio.create_task(Traffic(stage, 1, _TURNS, 4_000, ahead=2_000).run())
        try:
            workers = [await stage.start("decide"), await stage.start("decide")]
            await until(
                lambda: all(len(_owned(one.log)) == PARTITIONS // 2 for one in workers),
                "both to have their share",
            )
            before = len(stage.ledger.states)
            await until(lambda: len(stage.ledger.states) > before + 500, "load")
            victim = workers[0]
            lost = _owned(victim.log)
            victim.send(signal.SIGKILL)
            await victim.process.wait()
            at = time.time_ns() // 1_000_000
            await until(lambda: lost <= set(_since(stage, at)), "its partitions")
            times = [(_since(stage, at)[one] - at) / 1000 for one in lost]
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
    return Failover(len(lost), min(times), max(times), SESSION_SECONDS)


def _owned(log: Path) -> set[int]:
    """The partitions that a worker has opened last."""
    found = _OPEN.findall(log.read_text())
    return {int(one) for one in found[-1].split(",")} if found else set()


def _since(stage: Stage, at: int) -> dict[int, int]:
    """Partition to the time (ms) of its first decision after a time."""
    found: dict[int, int] = {}
    for record in stage.ledger.states:
        if record.timestamp > at:
            found.setdefault(record.partition, record.timestamp)
    return found
