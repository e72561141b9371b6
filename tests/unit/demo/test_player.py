"""The player finds everything that does not go as a script says."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from aiokafka.structs import RecordMetadata, TopicPartition

from tests.unit.demo import events
from turnstream.demo.player import Player
from turnstream.demo.script import Script, Step
from turnstream.demo.traffic import DeadLettered, Overdue, Passed, Traffic
from turnstream.roles.writing import EventWriter, Written


class Replies:
    """A writer and its traffic in one: each thing said is followed by what was prepared."""

    def __init__(self, *following: Sequence[Passed]) -> None:
        self._following = list(following)
        self.said: list[Written] = []
        self.seen: list[Passed] = []
        self.reached: list[Mapping[tuple[str, int], int]] = []

    async def send(self, event: Written) -> RecordMetadata:
        """As the writer."""
        self.said.append(event)
        self.seen += self._following.pop(0)
        tp = TopicPartition("conversation.control", 0)
        return RecordMetadata(tp.topic, tp.partition, tp, len(self.said), 0, 0, 0)

    def of(self, conversation_id: str) -> Sequence[Passed]:
        """As the traffic."""
        return self.seen

    async def until(self, check: Callable[[], Any], *, seconds: float, what: str) -> Any:
        """As the traffic, without waiting."""
        found = check()
        if found is None:
            raise Overdue(what)
        return found

    async def wait(self, needed: Mapping[tuple[str, int], int]) -> None:
        """As the deciding role, which is always there already."""
        self.reached.append(needed)


def player(replies: Replies) -> Player:
    """A player that talks to the double."""
    return Player(
        cast("EventWriter", replies), cast("Traffic", replies), reached=replies.wait, step_seconds=1
    )


def script(*then: Mapping[str, Any], more: Sequence[Mapping[str, Any]] = ()) -> Script:
    """A script whose first step expects something, and may go on."""
    steps = [{"says": "x", "then": list(then)}, *more]
    return Script(id="c", title="t", steps=tuple(map(Step.model_validate, steps)))


GOOD = (events.turn("x", offset=3), events.action("a"), events.message("a", "Which?"))


async def test_as_expected() -> None:
    """A step that goes as expected deviates in nothing, and the deciding role is waited for."""
    replies = Replies(GOOD)
    played = script({"ask": "order_id", "text": "Which?"})
    result = await player(replies).play(played)

    assert [] == result.deviations
    assert [] == player(replies).surplus(played)
    assert [{("conversation.turns", 0): 4}] == replies.reached


@pytest.mark.parametrize(
    ("expected", "following", "deviation"),
    [
        ({"refuse": "fraud"}, GOOD, "expected refuse fraud, got ask order_id"),
        ({"ask": "city"}, GOOD, "expected ask city, got ask order_id"),
        ({"ask": "order_id", "text": "Who?"}, GOOD, "expected the text 'Who?'"),
        ({"ask": "order_id", "contains": "Who"}, GOOD, "expected 'Who' in the text"),
        ({"ask": "order_id", "question_ended": "late"}, GOOD, "expected a question ended late"),
        ({"ask": "order_id"}, GOOD[:2], "ask order_id; so far: ask order_id"),
        ({"ask": "order_id"}, [], "so far: nothing"),
        ({"ask": "order_id"}, [events.outcome("buffered")], "unexpected: outcome buffered"),
        ({"outcome": "late"}, [events.outcome("buffered")], "expected outcome late"),
        (
            {"ask": "order_id"},
            [*GOOD, events.action("r", offset=1, decision=events.REFUSE)],
            "unexpected: refuse fraud",
        ),
        (
            {"ask": "order_id"},
            [
                Passed(
                    "conversation.turns",
                    "turns.dlq",
                    0,
                    0,
                    0,
                    DeadLettered("c", "turns", "invalid"),
                )
            ],
            "put aside: invalid",
        ),
    ],
)
async def test_deviations(
    expected: Mapping[str, Any], following: Sequence[Passed], deviation: str
) -> None:
    """Whatever differs is named, and the script is not played further."""
    replies = Replies(following)
    result = await player(replies).play(script(expected, more=[{"says": "never said"}]))

    assert 1 == len(result.deviations)
    assert deviation in result.deviations[0]
    assert 1 == len(replies.said)


async def test_surplus_is_found_in_the_end() -> None:
    """An action that comes after the last step is a deviation."""
    replies = Replies(GOOD)
    played = script({"ask": "order_id"})
    await player(replies).play(played)
    replies.seen.append(events.action("r", offset=1, decision=events.REFUSE))

    assert ["unexpected: refuse fraud"] == player(replies).surplus(played)


async def test_turn_names_a_question() -> None:
    """A reply names the question that the script counts."""
    replies = Replies(GOOD, ())
    played = script({"ask": "order_id"}, more=[{"says": "A-1001", "replies_to": 1}])
    await player(replies).play(played)

    assert "q-a" == replies.said[1].reply_to_question_id  # type: ignore[union-attr]


async def test_control_is_waited_for() -> None:
    """After a control event the deciding role must have read it before anyone speaks."""
    replies = Replies(GOOD, ())
    played = script({"ask": "order_id"}, more=[{"control": "hand_back"}])
    await player(replies).play(played)

    assert {("conversation.control", 0): 3} == replies.reached[-1]
