"""Folds the inputs of a conversation through the machine and compares with its changelog.

The changelog says how far each topic had been handled at every record; what was handled between
two records of it, in which order, is found by trying, since every input must lead to exactly what
was published for it. A tombstone says less: only that the conversation was closed by what had been
written until then. The next input finds none, or the closed one if it was at work already. Times
are the worker's clock and not compared.

No reply of the decider can be worked out again: they come from its log, where a request may have
several, of processes that were lost before they committed. The number of a reply is in the
diagnostics of the action that was made of it, so only that one leads to what was published. A
first reply that was refused as invalid stands in no action: any that was logged will do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tests.chaos import logs
from turnstream.core.conversation import Conversation
from turnstream.core.effects import Abandoned, DeadLetter, Input, Propose, Publish, Step
from turnstream.core.events import ConversationTurn, Event
from turnstream.core.publications import ActionEvent, Outcome
from turnstream.core.record import dump, load
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.roles.intake import source_of
from turnstream.roles.spending import IN_ALL
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


Position = tuple[int, ...]
"""How many inputs of each topic have been taken, in the order of the topics."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """A state that an order of inputs leads to; None where nothing is kept."""

    position: Position
    state: Conversation | None
    recorded: bool = False
    """Whether the changelog holds a record of it."""

    @property
    def known_by(self) -> tuple[Position, bytes]:
        """What makes it another one."""
        return self.position, b"" if self.state is None else dump(self.state)


@dataclass(slots=True)
class Folder:
    """Folds under one catalog."""

    ruleset: Ruleset
    replies: Mapping[str, Sequence[logs.Reply]] = field(default_factory=dict)
    """Request to the replies that its decider has logged."""

    def difference(self, key: str, inputs: Sequence[Handled], kept: Sequence[Record]) -> str | None:
        """Say how a conversation's changelog differs from a fold of its inputs, if it does."""
        queues: dict[str, list[Handled]] = {}
        for one in inputs:
            queues.setdefault(one.record.topic, []).append(one)
        fold = _Fold(self, key, tuple(queues), tuple(queues.values()))
        # More than one only after a tombstone, which does not say what came before it.
        held = [_Reached((0,) * len(queues), None)]
        for number, record in enumerate(kept):
            before, held = held, []
            for start in before:
                held += fold.to(start, record)
            held = _distinct(held)
            if not held:
                what = "tombstone" if record.value is None else "changelog record"
                at = dict(zip(queues, before[0].position, strict=True)) if before else {}
                return f"{what} {number} is no fold of the inputs after {at}"
        if any(fold.silently_ends(reached) for reached in held):
            return None
        left = len(inputs) - max(sum(reached.position) for reached in held)
        return f"{left} inputs are in no changelog record"

    def ends(self, outcome: Step, cause: Input) -> Iterator[Step]:
        """Give the rest that every logged reply leads to."""
        last = outcome.effects[-1] if outcome.effects else None
        if not isinstance(last, Propose):
            yield outcome
            return
        for reply in self.replies.get(logs.asked(last.request), ()):
            following = step(outcome.state, cause.with_event(reply.proposal), self.ruleset)
            yield from self.ends(following, cause)


@dataclass(slots=True)
class _Fold:
    """The inputs of one conversation, and how they can be taken."""

    folder: Folder
    key: str
    topics: Sequence[str]
    queues: Sequence[Sequence[Handled]]

    def to(self, start: _Reached, record: Record) -> Iterator[_Reached]:
        """Give what a changelog record leaves, where inputs up to it lead there."""
        if record.value is None:
            limit = self._until(start, record.timestamp)
            for one in self._reached(start, limit):
                if one.state is not None and one.state.phase == "closed":
                    yield _Reached(one.position, None)
                    yield _Reached(one.position, one.state)
            return
        target = load(record.value)
        limit = tuple(
            self._count(queue, target.watermarks[topic])
            if topic in target.watermarks
            else taken
            if start.recorded
            else until
            for topic, queue, until, taken in zip(
                self.topics,
                self.queues,
                self._until(start, record.timestamp),
                start.position,
                strict=True,
            )
        )
        wanted = _without_clock(target)
        named = [topic in target.watermarks for topic in self.topics]
        for one in self._reached(start, limit):
            complete = all(
                taken == end
                for taken, end, is_named in zip(one.position, limit, named, strict=True)
                if is_named
            )
            if complete and one.state is not None and _without_clock(one.state) == wanted:
                yield _Reached(one.position, target, recorded=True)
                if start.recorded:
                    return

    def silently_ends(self, start: _Reached) -> bool:
        """Tell whether the inputs that are left need no record: each time, all was over at once."""
        end = tuple(map(len, self.queues))
        if start.position == end:
            return True
        return not start.recorded and any(
            one.position == end and (one.state is None or one.state.phase == "closed")
            for one in self._reached(start, end)
        )

    def _reached(self, start: _Reached, limit: Position) -> Iterator[_Reached]:
        """Give all that can be reached: every order that leads to what was published.

        A closed conversation without a record may be gone at once, and leaves no tombstone.

        Args:
            start: where to begin.
            limit: the most inputs of each topic that may be taken.
        """
        level = [start]
        while level:
            yield from level
            following: list[_Reached] = []
            for one in level:
                for index, taken in enumerate(one.position):
                    if taken >= limit[index]:
                        continue
                    position = (*one.position[:index], taken + 1, *one.position[index + 1 :])
                    for state in self._taken(one.state, self.queues[index][taken]):
                        following.append(_Reached(position, state, start.recorded))
                        if not start.recorded and state.phase == "closed":
                            following.append(_Reached(position, None))
            level = _distinct(following)

    def _until(self, start: _Reached, at: int) -> Position:
        """Count the inputs that were written before a time (ms)."""
        return tuple(
            taken + sum(one.record.timestamp <= at for one in queue[taken:])
            for queue, taken in zip(self.queues, start.position, strict=True)
        )

    def _count(self, queue: Sequence[Handled], watermark: int) -> int:
        return sum(one.record.offset <= watermark for one in queue)

    def _taken(self, state: Conversation | None, one: Handled) -> Iterator[Conversation]:
        """Take an input, where that leads to what was published for it."""
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
            conversation_id=self.key,
            event=happening,
            source=source_of(record),
            topic=record.topic,
            offset=record.offset,
            timestamp=record.timestamp,
            now=now,
        )
        expected = _expected(one)
        for outcome in self.folder.ends(step(state, cause, self.folder.ruleset), cause):
            if _published(outcome) == expected:
                yield outcome.state
                return


def _distinct(found: list[_Reached]) -> list[_Reached]:
    """Leave out what another order leads to as well; mostly there is one only."""
    return found if len(found) < 2 else list({one.known_by: one for one in found}.values())


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
    # With the same clock all of it is the same: arguments, texts, deadlines, what a person is told.
    # Only what failed attempts took is told by no reply.
    notes = {
        name: note for name, note in orjson.loads(action.diagnostics_json).items() if name != IN_ALL
    }
    return action.model_dump(exclude={"diagnostics_json"}) | {"diagnostics": notes}


def reply_of(action: ActionEvent) -> str | None:
    """The number of the reply that an action was made of; None where code decided."""
    found: str | None = orjson.loads(action.diagnostics_json).get(logs.REPLY)
    return found


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
