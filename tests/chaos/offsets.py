"""Compares what each group has committed with the time at which each input was finished.

Every role leaves a durable trace of what it has finished, and commits it together with the offset
that passes it: a trace that is younger than the look that saw the offset pass, or none, is a
finding. Traces are what was published for the input and the watermarks of the role's changelog.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.chaos.ledger import Finding, Ledger, Place, place_of
from turnstream.core.events import Answer, ConversationControl, ConversationTurn, Timer, ToolResult
from turnstream.stream import Record

_NEVER: Final = 2**63


@dataclass(frozen=True, slots=True)
class _Due:
    """An input that a role has to leave a trace of."""

    said: int = 0
    """When what was published for it was (ms)."""
    remembered: int = 0
    """When the changelog first had it (ms)."""
    key: bytes = b""
    """The conversation after whose end the changelog need not have it."""


def passed(ledger: Ledger) -> Iterator[Finding]:
    """Find the offsets that were committed before the input below them was finished."""
    traces = _Traces(ledger)
    over = _over(ledger)
    for role, looks in ledger.snapshots.items():
        snapshots = [look for look in looks if look[0] <= ledger.whole_until]
        due = traces.of[role]()
        by_partition: dict[tuple[str, int], list[Place]] = defaultdict(list)
        for place in sorted(due):
            by_partition[place[:2]].append(place)
        for tp, places in by_partition.items():
            number = 0
            for place in places:
                while number < len(snapshots) and snapshots[number][1].get(tp, 0) <= place[2]:
                    number += 1
                if number == len(snapshots):
                    break
                seen, one = snapshots[number][0], due[place]
                forgotten = over.get(one.key, _NEVER) <= seen
                if one.said > seen or (one.remembered > seen and not forgotten):
                    yield Finding("offset_passed", f"{role}: {place}")


def _over(ledger: Ledger) -> Mapping[bytes, int]:
    """Conversation to the time (ms) when it was first told to end: its traces may go from then."""
    found: dict[bytes, int] = {}
    for record, event in ledger.sources.values():
        if record.key is not None and is_end(event):
            found[record.key] = min(record.timestamp, found.get(record.key, _NEVER))
    return found


def is_end(event: object) -> bool:
    """Whether an input may end its conversation."""
    return (isinstance(event, ConversationControl) and event.kind in ("close", "forget")) or (
        isinstance(event, Timer) and event.kind == "conversation_close"
    )


@dataclass(slots=True)
class _Traces:
    ledger: Ledger
    of: Mapping[str, Callable[[], Mapping[Place, _Due]]] = field(init=False)
    """Role to what gives the inputs that it leaves a trace of."""

    def __post_init__(self) -> None:
        self.of = {
            "decide": self._decide,
            "execute": self._execute,
            "answer": self._answer,
            "classify": self._classify,
            "shadow": self._shadow,
        }

    def _decide(self) -> Mapping[Place, _Due]:
        """Every input is in the watermarks; a turn has its action, outcome or letter as well."""
        ledger = self.ledger
        said: dict[Place, int] = {}
        for record, action in ledger.actions:
            said.setdefault(place_of(action.source), record.timestamp)
        for record, outcome in ledger.outcomes:
            said.setdefault(place_of(outcome.source), record.timestamp)
        due: dict[Place, _Due] = {}
        for place, (record, event) in ledger.sources.items():
            letter = ledger.given_up("decide", place)
            told = letter.record.timestamp if letter is not None else _NEVER
            if event is None:
                due[place] = _Due(said=told)
                continue
            if not isinstance(event, ConversationTurn):
                told = 0
            due[place] = self._remembered("decide", record, said=said.get(place, told))
        return due

    def _execute(self) -> Mapping[Place, _Due]:
        """A call has its final result, and its end in the journal."""
        results: dict[str, int] = {}
        for record, result in self.ledger.results:
            if result.final:
                results.setdefault(result.action_id, record.timestamp)
        due: dict[Place, _Due] = {}
        for record, action in self.ledger.actions:
            if action.call is None:
                continue
            journal = self.ledger.journal.get(journal_key(action.conversation_id, action.action_id))
            ended = next((at for at, phase in journal or () if phase != "started"), _NEVER)
            due[place_of(record)] = _Due(said=max(ended, results.get(action.action_id, _NEVER)))
        return due

    def _answer(self) -> Mapping[Place, _Due]:
        """An answer is composed, or said to have failed."""
        composed: dict[str, int] = {}
        for record, answer in self.ledger.answers:
            composed.setdefault(answer.action_id, record.timestamp)
        return {
            place_of(record): _Due(said=composed.get(action.action_id, _NEVER))
            for record, action in self.ledger.actions
            if action.answer is not None
        }

    def _classify(self) -> Mapping[Place, _Due]:
        """What is said in a conversation is in the watermarks of its window."""
        ledger = self.ledger
        said = [
            record
            for record, event in ledger.sources.values()
            if isinstance(event, ConversationTurn)
            or (isinstance(event, Answer) and event.text is not None)
        ]
        said += [
            record
            for record, action in ledger.actions
            if action.question or action.refusal or action.handoff
        ]
        return {place_of(record): self._remembered("classify", record) for record in said}

    def _shadow(self) -> Mapping[Place, _Due]:
        """What was decided, and what it was decided of, is in the watermarks of the copy."""
        ledger = self.ledger
        heard = [
            record
            for record, event in ledger.sources.values()
            if isinstance(event, ConversationTurn | ToolResult | Answer)
        ]
        heard += [record for record, _ in ledger.actions]
        return {place_of(record): self._remembered("shadow", record) for record in heard}

    def _remembered(self, role: str, record: Record, *, said: int = 0) -> _Due:
        """An input that the changelog remembers, until its conversation ends."""
        letter = self.ledger.given_up(role, place_of(record))
        key = record.key or b""
        at = self.ledger.marked(role, record.topic, key, offset=record.offset)
        if at is None:
            at = letter.record.timestamp if letter is not None else _NEVER
        return _Due(said, at, key)


def journal_key(conversation_id: str, action_id: str) -> bytes:
    """The key of a call in the executor's journal."""
    return f"{conversation_id}/{action_id}".encode()
