"""Members with a name of their own: a restart moves nothing, and a name used twice is told."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.integration.test_lanes import exit_status, lanes_on
from turnstream.stream.role import EXIT_FAILED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.test_lanes import Lanes

MOVED = "lanes closed"
"""What a worker logs whenever it has given its partitions up."""


async def started(
    lanes: Lanes, log: Path, name: str, **options: object
) -> asyncio.subprocess.Process:
    """Start a worker with a name in the group; its log is appended to."""
    with log.open("ab") as file:
        return await lanes.start(
            stderr=file,
            instance_id=name,
            log="INFO",
            # Far longer than the restart of a process.
            session_timeout_ms=20_000,
            delays_ms=[2, 5, 10, 20],
            **options,
        )


def opened(log: Path) -> int:
    """How often a worker has opened its lanes."""
    return log.read_text().count("lanes open") if log.exists() else 0


async def until_open(log: Path, *, before: int = 0) -> None:
    """Wait until a worker has opened its lanes once more than that."""
    deadline = time.monotonic() + 40
    while opened(log) <= before:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_a_restart_within_the_session_moves_nothing(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """After a kill -9 and after a SIGTERM: the other goes on, and each input is published once."""
    count = 6_000
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(count, keys=200, value="slow")
        worker = await started(lanes, first, "first")
        other = await started(lanes, second, "second")
        await until_open(first)
        await until_open(second)
        await lanes.until(lambda done: done > 500)
        moved = second.read_text().count(MOVED)
        for killed in (True, False):
            before = opened(first)
            worker.kill() if killed else worker.terminate()
            await worker.wait()
            worker = await started(lanes, first, "first")
            await until_open(first, before=before)
        await lanes.until(lambda done: done == count, seconds=60)

        assert moved == second.read_text().count(MOVED)
        assert None is other.returncode
        await lanes.assert_exactly_once(count)


async def test_a_name_used_twice_ends_the_one_that_lost_its_place(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """They would take the partitions from each other for ever; the message names the setting."""
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(400, keys=40, value="slow")
        worker = await started(lanes, first, "twin")
        await lanes.until(lambda done: done == 400)
        twin = await started(lanes, second, "twin")

        assert EXIT_FAILED == await exit_status(worker), first.read_text()

        await lanes.produce(400, keys=40, value="slow")
        await lanes.until(lambda done: done == 800)

        said = first.read_text()
        assert "another process uses stream.group_instance_id 'twin' in group" in said, said
        assert "give each process its own" in said
        assert None is twin.returncode, second.read_text()
        assert 1 == opened(second)
        await lanes.assert_exactly_once(800)
