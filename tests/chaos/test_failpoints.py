"""Every failpoint is on the way of an ordinary run."""

import re
import signal
from pathlib import Path

import pytest

from tests.chaos import shop
from tests.chaos.stage import said, staged, until
from turnstream.stream.failpoints import POINTS

pytestmark = [pytest.mark.kafka, pytest.mark.chaos]

_SAID = re.compile(r"failpoint ([a-z_]+), reached", re.ASCII)


@pytest.mark.timeout(240)
async def test_every_failpoint_is_reached(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A first start, calls that fail, a stop and a second start pass every place there is."""
    everywhere = ",".join(f"{point}=delay:0" for point in POINTS)
    async with staged(kafka_bootstrap, topic_prefix, tmp_path) as stage:
        workers = [await stage.start(role, failpoints=everywhere) for role in ("decide", "execute")]
        await stage.start("answer")
        # The reply is lost: one tool is called again, the other asked what became of the call.
        order = next(name for name in map("A-{}".format, range(99)) if troubled(name))
        for number, tool in enumerate(("book", "transfer")):
            await stage.send("conversation.turns", said(f"c-{number}", 1, f"{tool} {order}"))
        await until(lambda: stage.ledger.turns > 1, "the turns")
        await stage.until_complete()
        for worker in workers:
            worker.send(signal.SIGTERM)
            assert 0 == await stage.exit_status(worker)
        again = await stage.start("decide", failpoints=everywhere)
        await stage.until_open(again)

        reached = {point for one in stage.workers for point in _SAID.findall(one.log.read_text())}

        assert set(POINTS) == reached


def troubled(order: str) -> bool:
    """Whether the first call about an order has its effect and then fails."""
    return shop._troubles(order) == (0, 1)


@pytest.mark.timeout(240)
async def test_a_group_that_crashed_before_it_began_begins_all_the_same(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Whether or not its first offsets were committed, nothing that was there before is lost."""
    async with staged(kafka_bootstrap, topic_prefix, tmp_path, with_calls=False) as stage:
        await stage.send("conversation.turns", said("c-1", 1, "when do you open?"))
        for point in ("before_first_commit", "after_first_commit"):
            worker = await stage.start("decide", failpoints=f"{point}=crash")
            assert -signal.SIGKILL == await stage.exit_status(worker)
            assert worker.said(f"failpoint {point}, reached")
        await stage.start("decide")
        await until(lambda: stage.ledger.turns > 0, "the turn")
        await stage.until_complete()

        assert [] == stage.check()
