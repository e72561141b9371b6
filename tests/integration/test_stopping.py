"""A process that is asked to stop while its group is at something else."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.integration.test_lanes import exit_status, lanes_on
from turnstream.stream.failpoints import VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_LEFT = "LeaveGroup request succeeded"
"""What a client logs once its group does not wait for it any more."""


def said(log: Path, text: str) -> bool:
    """Whether a worker has logged something."""
    return text in log.read_text()


async def until_said(log: Path, text: str) -> None:
    """Wait until a worker has logged something."""
    deadline = time.monotonic() + 40
    while not said(log, text):
        assert time.monotonic() < deadline, text
        await asyncio.sleep(0.05)


async def test_a_process_that_stops_within_a_rebalance_leaves_its_group(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new member makes it give its partitions up; in the middle of that it is asked to stop."""
    count = 400
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        await lanes.produce(count, keys=40, value="slow")
        monkeypatch.setenv(VARIABLE, "after_intake_closed=delay:3000")
        with first.open("wb") as file:
            worker = await lanes.start(stderr=file, log="INFO")
        monkeypatch.delenv(VARIABLE)
        await until_said(first, "lanes open")
        with second.open("wb") as file:
            await lanes.start(stderr=file, log="INFO")
        await until_said(first, "failpoint after_intake_closed")
        worker.terminate()

        assert 0 == await exit_status(worker), first.read_text()

        assert _LEFT in first.read_text()
        await lanes.until(lambda done: done == count)
        await lanes.assert_exactly_once(count)
