"""Every failpoint is on the way of an ordinary run."""

import re
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.stage import staged, until
from turnstream.core.events import ConversationTurn
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
        turn = ConversationTurn(
            turn_id="t1",
            conversation_id="c-1",
            channel_id="web",
            role="customer",
            text="[c-1/1] refund A-1",
            occurred_at=time.time_ns() // 1_000_000,
        )
        await stage.producer.send_and_wait(
            stage.topic("conversation.turns"),
            stage.deployment.codec.encode(turn),
            key=b"c-1",
            partition=stage.partition("c-1"),
        )
        await until(lambda: stage.ledger.turns > 0, "the turn")
        await stage.until_complete()
        for worker in workers:
            worker.send(signal.SIGTERM)
            assert 0 == await stage.exit_status(worker)
        again = await stage.start("decide", failpoints=everywhere)
        await stage.until_open(again)

        said = {point for one in stage.workers for point in _SAID.findall(one.log.read_text())}

        assert set(POINTS) == said
