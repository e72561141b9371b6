"""Every failpoint is on the way of an ordinary run."""

import re
import signal
from pathlib import Path

import pytest

from tests.chaos.stage import said, staged, until
from turnstream.stream.failpoints import POINTS

pytestmark = [pytest.mark.kafka, pytest.mark.chaos]

_SAID = re.compile(r"failpoint ([a-z_]+), reached", re.ASCII)


@pytest.mark.timeout(240)
async def test_every_failpoint_is_reached(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A start, a call, a stop and a second start pass every place there is."""
    everywhere = ",".join(f"{point}=delay:0" for point in POINTS)
    async with staged(kafka_bootstrap, topic_prefix, tmp_path) as stage:
        workers = [await stage.start(role, failpoints=everywhere) for role in ("decide", "execute")]
        await stage.start("answer")
        await stage.send("conversation.turns", said("c-1", 1, "refund A-1"))
        await until(lambda: stage.ledger.turns > 0, "the turn")
        await stage.until_complete()
        for worker in workers:
            worker.send(signal.SIGTERM)
            assert 0 == await stage.exit_status(worker)
        again = await stage.start("decide", failpoints=everywhere)
        await stage.until_open(again)

        reached = {point for one in stage.workers for point in _SAID.findall(one.log.read_text())}

        assert set(POINTS) == reached
