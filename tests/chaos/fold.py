"""Folds the inputs of a conversation through the machine and compares with its changelog.

The changelog says how far each topic had been handled at every record; what was handled between
two records of it, in which order, is found by trying, since every input must lead to exactly what
was published for it. Times are the worker's clock and not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from tests.chaos import shop
from turnstream.core.conversation import Conversation
from turnstream.core.effects import Abandoned, DeadLetter, Input, Propose, Publish, Step
from turnstream.core.events import ActionEvent, ConversationTurn, Event, Outcome
from turnstream.core.record import dump, load
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.roles.intake import source_of
from turnstream.stream import Record

_CLOCK: Final = frozenset({"at", "updated_at", "due_at", "deadline_at", "asked_at", "expires_at"})
_TIMER_ID: Final = re.compile(r"/[0-9]+\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Handled:
    """An input of a conversation and what it led to."""

    record: Record
    event: Event
    actions: Sequence[ActionEvent]
    outcomes: Sequence[Outcome]
    letter: str | None
    """Reason of its dead letter."""


class Folder:
    """Folds under one catalog."""

    def __init__(self, ruleset: Ruleset) -> None:
        self._ruleset = ruleset

    def watermarks(self, value: bytes) -> Mapping[str, int]:
        """Return the watermarks of a changelog record."""
        found: dict[str, int] = orjson.loads(value)["watermarks"]
        return found

    def difference(
        self, key: str, inputs: Sequence[Handled], kept: Sequence[bytes | None]
    ) -> str | None:
        """Say how a conversation's changelog differs from a fold of its inputs, if it does."""
        state: Conversation | None = None
        waiting: dict[str, list[Handled]] = {}
        for one in inputs:
            waiting.setdefault(one.record.topic, []).append(one)
        for number, value in enumerate(kept):
            if value is None:
                continue
            target = load(value)
            chunk: list[list[Handled]] = []
            for topic, watermark in target.watermarks.items():
                queue = waiting.get(topic, [])
                count = sum(one.record.offset <= watermark for one in queue)
                if count:
                    chunk.append(queue[:count])
                    waiting[topic] = queue[count:]
            wanted = _without_clock(target)
            if not any(
                _without_clock(folded) == wanted for folded in self._folds(key, state, chunk)
            ):
                sizes = [len(queue) for queue in chunk]
                return f"changelog record {number} is no fold of {sizes} inputs"
            state = target
        left = sum(len(queue) for queue in waiting.values())
        return f"{left} inputs are in no changelog record" if left else None

    def _folds(
        self, key: str, state: Conversation | None, queues: Sequence[Sequence[Handled]]
    ) -> Iterator[Conversation]:
        """Give the states of every order of the inputs that leads to what was published."""
        if not queues:
            if state is not None:
                yield state
            return
        for index, queue in enumerate(queues):
            taken = self._taken(key, state, queue[0])
            if taken is None:
                continue
            rest = [queue[1:] if each == index else one for each, one in enumerate(queues)]
            yield from self._folds(key, taken, [one for one in rest if one])

    def _taken(self, key: str, state: Conversation | None, one: Handled) -> Conversation | None:
        """Take an input; None if it leads to something else than was published."""
        record, event = one.record, one.event
        now = record.timestamp
        if one.outcomes:
            now = one.outcomes[0].occurred_at
        if one.actions:
            now = one.actions[0].decided_at
        happening: Any = event
        if one.letter == "handler_failed":
            happening = Abandoned(event if isinstance(event, ConversationTurn) else None)
        cause = Input(
            conversation_id=key,
            event=happening,
            source=source_of(record),
            topic=record.topic,
            offset=record.offset,
            timestamp=record.timestamp,
            now=now,
        )
        outcome = step(state, cause, self._ruleset)
        while outcome.effects and isinstance(outcome.effects[-1], Propose):
            request = outcome.effects[-1].request
            if shop.BUG in request.latest:
                return None
            reply = cause.with_event(shop.decided(request))
            outcome = step(outcome.state, reply, self._ruleset)
        return outcome.state if _published(outcome) == _expected(one) else None


def _published(outcome: Step) -> tuple[list[object], bool]:
    said: list[object] = []
    letter = False
    for effect in outcome.effects:
        match effect:
            case Publish(event=ActionEvent() as action):
                said.append(_of_action(action))
            case Publish(event=Outcome() as one):
                said.append(_of_outcome(one))
            case DeadLetter():
                letter = True
            case _:
                pass
    return sorted(said, key=str), letter


def _expected(one: Handled) -> tuple[list[object], bool]:
    said: list[object] = [_of_action(action) for action in one.actions]
    said += [_of_outcome(outcome) for outcome in one.outcomes]
    letter = one.letter is not None and one.letter != "handler_failed"
    return sorted(said, key=str), letter


def _of_action(action: ActionEvent) -> object:
    return (
        action.action_id,
        action.input_no,
        action.sequence,
        action.step,
        dict(action.seen),
        action.decision.model_dump(),
    )


def _of_outcome(outcome: Outcome) -> object:
    return (outcome.of, outcome.outcome, outcome.input_no, outcome.question_id, outcome.turn_id)


def _without_clock(state: Conversation) -> Any:
    return _stripped(orjson.loads(dump(state)))


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _TIMER_ID.sub("", one) if name == "timer_id" else _stripped(one)
            for name, one in value.items()
            if name not in _CLOCK
        }
    if isinstance(value, list):
        return [_stripped(one) for one in value]
    return value
