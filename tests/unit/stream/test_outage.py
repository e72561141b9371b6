"""A commit waits for brokers that are away, and for nothing else."""

import asyncio
import logging

import pytest

from turnstream.stream import outage
from turnstream.stream.handler import Handled, Publication
from turnstream.stream.heartbeats import Heartbeats
from turnstream.stream.lane import Lane
from turnstream.stream.outage import LONGEST_SECONDS, answered_within
from turnstream.stream.role import LaneFailed
from turnstream.stream.source import Entry
from turnstream.stream.store import MemoryRecords

from .lane_fakes import OUT, RESULTS, TURNS, Bench, Tally, record, settings, until


class Silence(Heartbeats):
    """Brokers that have been silent for as long as a test says."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.looks = 0

    def silence(self) -> float:
        """Return what the test says."""
        self.looks += 1
        return self.seconds


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "_LOOK_SECONDS", 0.001)


async def test_a_limit_does_not_run_while_the_brokers_are_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It begins anew when they answer again; the log says both, and each once."""
    brokers = Silence(20.0)
    with caplog.at_level(logging.WARNING), pytest.raises(TimeoutError):  # noqa: PT012 - its end
        async with answered_within(0.001, role=Bench().role(heartbeats=brokers), what="the commit"):
            await until(lambda: brokers.looks > 20)
            brokers.seconds = 0.0
            await asyncio.Event().wait()

    waits, goes_on = (one.getMessage() for one in caplog.records)
    assert "the commit waits: no broker of nowhere:1 has answered for 20 s" in waits
    assert "the commit goes on: the brokers answer again" == goes_on


@pytest.mark.parametrize(
    ("silence", "said"),
    [
        (0.0, "the brokers of nowhere:1 (kafka.bootstrap_servers) answer, but"),
        (LONGEST_SECONDS, "no broker of nowhere:1 (kafka.bootstrap_servers) has answered for 600"),
    ],
    ids=["answering", "away for too long"],
)
async def test_a_transaction_that_does_not_end_ends_the_process(silence: float, said: str) -> None:
    """The message says what is wrong where; nothing was committed."""
    bench = Bench(settings(request_timeout_ms=1, session_timeout_ms=1, heartbeat_interval_ms=0))
    bench.producer.gate = asyncio.Event()
    lane = await opened(bench, Silence(silence))
    finish(lane)
    await until(lambda: bool(bench.failures.errors))
    await lane.close()

    (error,) = bench.failures.errors
    assert isinstance(error, LaneFailed)
    assert f"lane 0 could not commit: {said}" in str(error)
    assert [] == bench.producer.committed


async def test_a_transaction_goes_on_when_the_brokers_are_back() -> None:
    """However long after its limit, as long as they were away meanwhile."""
    bench = Bench(settings(request_timeout_ms=1, session_timeout_ms=1, heartbeat_interval_ms=0))
    gate = bench.producer.gate = asyncio.Event()
    brokers = Silence(20.0)
    lane = await opened(bench, brokers)
    finish(lane)
    await until(lambda: brokers.looks > 20)
    gate.set()
    await lane.drain()
    await lane.close()

    assert [] == bench.failures.errors
    assert [(b"k", b"out")] == bench.producer.sent(OUT)


async def opened(bench: Bench, brokers: Heartbeats) -> Lane[Tally]:
    """Open a lane without records."""
    lane = bench.lane(heartbeats=brokers)
    await lane.fence()
    lane.load(MemoryRecords(), ends={TURNS: 100, RESULTS: 100})
    lane.start(bench.sources())
    return lane


def finish(lane: Lane[Tally]) -> None:
    """Hand an outcome in."""
    one = record(0)
    source = lane.sources[TURNS]
    entry: Entry[Tally] = Entry(one, source=source, key=b"k", event="x")
    source.order.append(entry)
    lane.finish(entry, Handled(Tally().after(one), (Publication(OUT, b"k", b"out"),)))
