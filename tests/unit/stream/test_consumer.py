"""Tests of turnstream.stream.consumer: what a rebalance may interrupt."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import IllegalStateError
from aiokafka.structs import TopicPartition

from turnstream.stream.consumer import LaneConsumer

TP = TopicPartition("turns", 0)


class Given:
    """An ownership of one partition, and a consumer that has lost it."""

    def __init__(self, *, released: bool) -> None:
        self.epoch = 1
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
        """Read the end offsets; here the partition is given up meanwhile."""
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
