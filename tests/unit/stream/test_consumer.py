"""Tests of turnstream.stream.consumer: what a rebalance may interrupt."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import IllegalStateError, KafkaTimeoutError
from aiokafka.structs import TopicPartition

from turnstream.stream import consumer
from turnstream.stream.app import StreamApp
from turnstream.stream.consumer import LaneConsumer, LaneConsumerThread

TP = TopicPartition("turns", 0)


class Given:
    """An ownership of one partition, and a consumer that has lost it."""

    def __init__(self, *, released: bool, brokers_away: bool = False) -> None:
        self.epoch = 1
        self._away = brokers_away
        self.seen: list[Any] = []
        self.dispatcher = SimpleNamespace(sources=[SimpleNamespace(tp=TP, observe_end=self.see)])
        self._released = released

    def see(self, *arguments: Any, **options: Any) -> None:
        """Take an observation down."""
        self.seen.append((arguments, options))

    def observed(self) -> None:
        """Take down that it is complete."""
        self.seen.append("observed")

    async def ends(self, _tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Read the end offsets; here the partition is given up meanwhile, or nobody answers."""
        if self._away:
            raise KafkaTimeoutError
        self.epoch += self._released
        return {TP: 7}

    async def positions(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Refuse, as the client does for what is not assigned."""
        raise IllegalStateError(f"Partition {tps[0]} is not assigned")

    async def observe(self) -> None:
        """Observe the ends once."""
        app = SimpleNamespace(role=SimpleNamespace(now_ms=lambda: 1))
        consumer: Any = SimpleNamespace(app=app, _thread=self)
        await LaneConsumer._observe_ends(consumer, self)  # type: ignore[arg-type]


async def test_partitions_given_up_while_their_ends_are_read_are_not_observed() -> None:
    """A rebalance between two questions to the client is no reason to end the process."""
    given = Given(released=True)
    await given.observe()

    assert [] == given.seen


async def test_a_partition_that_is_lost_without_a_rebalance_ends_the_process() -> None:
    """What nobody gave up must be assigned; else timers would wait for ever without a word."""
    with pytest.raises(IllegalStateError):
        await Given(released=False).observe()


async def test_brokers_that_are_away_are_not_observed() -> None:
    """Timers wait for the next look; the process goes on when the brokers are back."""
    given = Given(released=False, brokers_away=True)
    await given.observe()

    assert [] == given.seen


class Unanswered:
    """A client whose group's coordinator answers to nothing, or not to the rebalance."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self.given_up = False
        self.left = False
        self._coordinator = self

    async def stop(self) -> None:
        """Wait for the rebalance, to leave the group then."""
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up = True

    async def _maybe_leave_group(self) -> None:
        if self._silent:
            await asyncio.Event().wait()
        self.left = True


@pytest.mark.parametrize("silent", [False, True])
async def test_a_coordinator_that_does_not_answer_does_not_keep_a_process(
    silent: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was finished is committed by then; it is told once more that this member is gone."""
    monkeypatch.setattr(consumer, "_LEAVE_SECONDS", 0.01)
    monkeypatch.setattr(consumer, "_LAST_SECONDS", 0.01)
    client = Unanswered(silent=silent)
    thread: Any = LaneConsumerThread.__new__(LaneConsumerThread)
    thread.app = SimpleNamespace(stream_settings=SimpleNamespace(group="shop-decide"))
    thread._consumer = client
    await thread.on_thread_stop()

    assert client.given_up
    assert client.left is not silent
    assert "group shop-decide is left in the middle" in caplog.text


def test_a_rebalance_at_the_end_leaves_the_client_to_its_own_thread() -> None:
    """Closed from another thread it would not leave its group, and may take the process down."""
    app: Any = SimpleNamespace(consumer=None)

    StreamApp._on_rebalance_when_stopped(app)
