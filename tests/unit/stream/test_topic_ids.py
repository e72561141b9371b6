"""The ids of topics, as a broker tells them."""

from typing import Any, cast
from uuid import UUID

import pytest
from aiokafka.client import AIOKafkaClient

from turnstream.stream import topic_ids as asked
from turnstream.stream.topic_ids import TopicIds, topic_ids

ONE, TWO = UUID(int=1), UUID(int=2)


class Metadata:
    """One answer: topics with an id, and those that have no leader yet."""

    cluster_id = "cluster"

    def __init__(self, ids: dict[str, UUID], *, unknown: tuple[str, ...] = ()) -> None:
        self.topics = [
            *((0, name, topic_id, False) for name, topic_id in ids.items()),
            *((5, name, UUID(int=0), False) for name in unknown),
        ]


class Client:
    """Gives answers in turn, the last one for ever."""

    def __init__(self, *answers: Metadata) -> None:
        self._answers = list(answers)
        self.asked = 0

    def get_random_node(self) -> int:
        """Return any."""
        return 1

    async def send(self, _: int, request: object) -> Metadata:
        """Answer."""
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    async def force_metadata_update(self) -> None:
        """Look again."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made; they take no time."""
    made: list[float] = []

    async def pause(seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(cast("Any", asked).asyncio, "sleep", pause)
    return made


async def test_a_topic_without_a_leader_is_asked_for_again_after_a_pause(
    pauses: list[float],
) -> None:
    """What another answer told of the others is kept."""
    client = Client(Metadata({"a": ONE}, unknown=("b",)), Metadata({"b": TWO}, unknown=("a",)))
    found = await topic_ids(cast("AIOKafkaClient", client), ["a", "b"])

    assert TopicIds("cluster", {"a": str(ONE), "b": str(TWO)}) == found
    assert 2 == client.asked
    assert [asked._PAUSE_SECONDS] == pauses


async def test_a_topic_that_stays_unknown_is_left_out(pauses: list[float]) -> None:
    """After many tries, each with time for the broker in between."""
    client = Client(Metadata({"a": ONE}, unknown=("b",)))
    found = await topic_ids(cast("AIOKafkaClient", client), ["a", "b"])

    assert TopicIds("cluster", {"a": str(ONE)}) == found
    assert client.asked == len(pauses)
    assert sum(pauses) >= 1
