"""Brokers that go away under a running worker and come back."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.deployed import until
from tests.integration.test_lanes import exit_status, lanes_on
from turnstream.demo.kafka import KafkaBroker

COUNT = 2_000


@pytest.mark.kafka
@pytest.mark.slow
async def test_a_worker_outlives_its_broker(tmp_path: Path, topic_prefix: str) -> None:
    """However long a transaction has waited for it: nothing is lost, and nothing is done twice."""
    log = tmp_path / "worker.log"
    with KafkaBroker(tmp_path / "kafka") as broker, log.open("wb") as stderr:
        async with lanes_on(broker.bootstrap, topic_prefix) as lanes:
            await lanes.produce(COUNT, keys=50, value="slow")
            worker = await lanes.start(delays_ms=[20, 50], stderr=stderr, request_timeout_ms=6_000)
            await lanes.until(lambda done: done > 100)
            broker.kill()

            async def waits() -> bool:
                assert worker.returncode is None, log.read_text()
                return "waits: no broker of" in log.read_text()

            await until(waits, log.read_text)
            await asyncio.to_thread(broker.start)
            await lanes.until(lambda done: done == COUNT)
            await lanes.assert_exactly_once(COUNT)
            worker.terminate()

            assert 0 == await exit_status(worker)
