"""Verifies a run from its topics and the log of its side effects, and from nothing else.

Each check has a name; a finding says which promise was broken, and where.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos import shop
from tests.chaos.fold import Folder, Handled
from turnstream.core.definitions import Catalog
from turnstream.core.events import (
    ActionEvent,
    Answer,
    ConversationTurn,
    Event,
    OutboundMessage,
    Outcome,
    ToolResult,
)
from turnstream.core.identity import action_id
from turnstream.roles.intake import Intake
from turnstream.stream import Record, Rejected

Place = tuple[str, int, int]
"""Physical topic, partition, offset."""

CHECKS: Final[Mapping[str, str]] = {
    "undecided_turn": "every turn has its actions, its outcome or its dead letter",
    "decided_twice": "every turn has only one of them, and every action is published once",
    "wrong_id": "an action's id is a function of its input",
    "not_committed": "only committed records are decided",
    "order": "a conversation's actions come in the order of its inputs",
    "overlap": "a conversation is decided by one task at a time",
    "offset_passed": "committed offsets never pass an unfinished input",
    "state": "the state is what a fresh fold of the inputs gives",
    "done_twice": "a write has at most one side effect per action",
    "done_unasked": "side effects belong to published actions",
    "done_late": "no side effect begins after its outcome was published",
    "untrue_result": "a result says what happened",
    "no_result": "every call has its final result, and one only",
    "no_answer": "every answer is composed, and once",
    "message_twice": "the customer sees every message once",
    "unknown_unforced": "a call is interrupted by a crash only",
    "built_on_sand": "state of a topic that was made anew refuses the start",
}
"""Name of each check to the promise that it verifies."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise broken."""

    check: str
    where: str


@dataclass(slots=True)
class Ledger:
    """Everything that a run has written, as committed records are read, and what is still open."""

    intake: Intake
    """The checks that decide makes of its inputs."""
    logical: Mapping[str, str]
    """Physical topic name to its logical one."""
    decode: Callable[[str, bytes], Event]
    """Logical topic and value to event."""
    changelog: str
    """Physical name of decide's changelog."""
    with_calls: bool = True
    """Whether calls and answers are carried out in this run."""
    sources: dict[Place, tuple[Record, Event | None]] = field(default_factory=dict)
    """Decide's inputs; no event for those that it must refuse."""
    actions: list[tuple[Record, ActionEvent]] = field(default_factory=list)
    outcomes: list[tuple[Record, Outcome]] = field(default_factory=list)
    results: list[tuple[Record, ToolResult]] = field(default_factory=list)
    answers: list[tuple[Record, Answer]] = field(default_factory=list)
    messages: list[tuple[Record, OutboundMessage]] = field(default_factory=list)
    letters: dict[Place, list[tuple[Record, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Place of a dead-lettered record to its letters and their reasons."""
    states: list[Record] = field(default_factory=list)
    """Decide's changelog."""
    snapshots: list[tuple[int, Mapping[tuple[str, int], int]]] = field(default_factory=list)
    """Time (ms) and the offsets that decide's group had committed then."""
    turns: int = 0
    open: set[object] = field(default_factory=set)
    """Turns not decided yet, calls without a result, answers not composed yet."""
    settled: set[object] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """Take in a committed record; each topic partition in its order."""
        if record.topic == self.changelog:
            self.states.append(record)
            return
        logical = self.logical[record.topic]
        if logical.endswith(".dlq"):
            self._letter(record)
            return
        event: Event | None
        if logical in _INPUTS:
            place = (record.topic, record.partition, record.offset)
            try:
                event = self.intake.admit(record)[1]
            except Rejected:
                event = None
            self.sources[place] = (record, event)
            if logical == "conversation.turns":
                self.turns += 1
                self._opened(place)
            if event is None:
                return
        else:
            event = self.decode(logical, record.value or b"")
        match event:
            case ActionEvent():
                self.actions.append((record, event))
                self._settle(_place(event.source))
                if self.with_calls and event.call is not None:
                    self._opened(("call", event.action_id))
                if self.with_calls and event.answer is not None:
                    self._opened(("answer", event.action_id))
            case Outcome():
                self.outcomes.append((record, event))
                self._settle(_place(event.source))
            case ToolResult():
                self.results.append((record, event))
                if event.final:
                    self._settle(("call", event.action_id))
            case Answer():
                self.answers.append((record, event))
                self._settle(("answer", event.action_id))
            case OutboundMessage():
                self.messages.append((record, event))
            case _:
                pass

    def _letter(self, record: Record) -> None:
        headers = {name: value.decode() for name, value in record.headers if value is not None}
        topic, partition, offset, reason = (
            headers[f"turnstream.error.{name}"]
            for name in ("topic", "partition", "offset", "reason")
        )
        place = (topic, int(partition), int(offset))
        self.letters[place].append((record, reason))
        self._settle(place)

    def _opened(self, what: object) -> None:
        # Topics are read at different speeds: the end may be met before the beginning.
        if what not in self.settled:
            self.open.add(what)

    def _settle(self, what: object) -> None:
        self.settled.add(what)
        self.open.discard(what)


def check(
    ledger: Ledger, *, folder: Path, catalog: Catalog, fold: Folder, crashes: bool
) -> list[Finding]:
    """Verify a run.

    Args:
        ledger: all that is in its topics.
        folder: where its logs are.
        catalog: its catalog.
        fold: folds a conversation's inputs.
        crashes: whether any process was killed, suspended or cut off from the broker.
    """
    run = _Run(ledger, shop.effects(folder), catalog, fold, crashes)
    found = [
        *run.decisions(),
        *run.order(),
        *run.offsets(),
        *run.states(),
        *(Finding("overlap", key) for key in shop.overlaps(folder)),
    ]
    if ledger.with_calls:
        found += [*run.calls(), *run.answers()]
    return found


@dataclass(slots=True)
class _Run:
    ledger: Ledger
    effects: Sequence[shop.Effect]
    catalog: Catalog
    fold: Folder
    crashes: bool

    def decisions(self) -> Iterator[Finding]:
        ledger = self.ledger
        batches: dict[Place, set[str]] = defaultdict(set)
        said: Counter[Place] = Counter()
        for _, action in ledger.actions:
            place = _place(action.source)
            batches[place].add(action.decision_id)
            expected = action_id(action.conversation_id, action.source, action.batch_index)
            if expected != action.action_id:
                yield Finding("wrong_id", action.action_id)
        for _, outcome in ledger.outcomes:
            if outcome.of != "question":
                said[_place(outcome.source)] += 1
        for place in {*batches, *said}:
            if place not in ledger.sources:
                yield Finding("not_committed", str(place))
        for place, (_, event) in ledger.sources.items():
            letters = ledger.letters.get(place, ())
            if len(letters) > 1:
                yield Finding("decided_twice", f"{place}: {len(letters)} dead letters")
            if event is None:
                if not letters:
                    yield Finding("undecided_turn", f"{place}: refused, and no dead letter")
            elif isinstance(event, ConversationTurn):
                ways = len(batches[place]) + said[place]
                if ways > 1:
                    yield Finding("decided_twice", str(place))
                elif not ways and not letters:
                    yield Finding("undecided_turn", str(place))
        for one, count in Counter(action.action_id for _, action in ledger.actions).items():
            if count > 1:
                yield Finding("decided_twice", f"action {one}: published {count} times")
        for message, count in Counter(
            (message.message_id, message.kind) for _, message in ledger.messages
        ).items():
            if count > 1:
                yield Finding("message_twice", f"{message}: {count} times")

    def order(self) -> Iterator[Finding]:
        last: dict[str, ActionEvent] = {}
        for _, action in self.ledger.actions:
            before = last.get(action.conversation_id)
            last[action.conversation_id] = action
            if before is not None and (
                action.sequence <= before.sequence
                or action.input_no < before.input_no
                or any(action.seen.get(topic, -1) < seen for topic, seen in before.seen.items())
            ):
                yield Finding("order", f"{before.action_id} before {action.action_id}")

    def offsets(self) -> Iterator[Finding]:
        """Compare committed offsets with the time at which each input was finished."""
        finished: dict[Place, int] = {}
        waiting: dict[tuple[str, bytes], list[Place]] = defaultdict(list)
        for place, (record, event) in sorted(self.ledger.sources.items(), reverse=True):
            if event is not None and record.key is not None:
                waiting[place[0], record.key].append(place)
        for record in self.ledger.states:
            if record.value is None or record.key is None:
                continue
            for topic, offset in self.fold.watermarks(record.value).items():
                queue = waiting.get((topic, record.key), [])
                while queue and queue[-1][2] <= offset:
                    finished[queue.pop()] = record.timestamp
        for place, letters in self.ledger.letters.items():
            finished.setdefault(place, letters[0][0].timestamp)
        by_partition: dict[tuple[str, int], list[Place]] = defaultdict(list)
        for place in sorted(self.ledger.sources):
            by_partition[place[0], place[1]].append(place)
        snapshots = self.ledger.snapshots
        for tp, places in by_partition.items():
            number = 0
            for place in places:
                while number < len(snapshots) and snapshots[number][1].get(tp, 0) <= place[2]:
                    number += 1
                if number == len(snapshots):
                    break
                passed = snapshots[number][0]
                if finished.get(place, passed + 1) > passed:
                    yield Finding("offset_passed", str(place))

    def states(self) -> Iterator[Finding]:
        ledger = self.ledger
        inputs: dict[bytes, list[Handled]] = defaultdict(list)
        actions: dict[Place, list[ActionEvent]] = defaultdict(list)
        outcomes: dict[Place, list[Outcome]] = defaultdict(list)
        for _, action in ledger.actions:
            actions[_place(action.source)].append(action)
        for _, outcome in ledger.outcomes:
            outcomes[_place(outcome.source)].append(outcome)
        for place, (record, event) in sorted(ledger.sources.items()):
            if event is not None and record.key is not None:
                letters = ledger.letters.get(place, ())
                inputs[record.key].append(
                    Handled(
                        record,
                        event,
                        actions[place],
                        outcomes[place],
                        letters[0][1] if letters else None,
                    )
                )
        kept: dict[bytes, list[bytes | None]] = defaultdict(list)
        for record in ledger.states:
            if record.key is not None:
                kept[record.key].append(record.value)
        for key, handled in inputs.items():
            fault = self.fold.difference(key.decode(), handled, kept[key])
            if fault:
                yield Finding("state", f"{key.decode()}: {fault}")

    def calls(self) -> Iterator[Finding]:
        ordered = {
            action.action_id: action for _, action in self.ledger.actions if action.call is not None
        }
        final: dict[str, list[ToolResult]] = defaultdict(list)
        for _, result in self.ledger.results:
            if result.final:
                final[result.action_id].append(result)
        effects: dict[str, list[shop.Effect]] = defaultdict(list)
        for effect in self.effects:
            effects[effect.action_id].append(effect)
        for one in effects.keys() - ordered.keys():
            yield Finding("done_unasked", one)
        for one, action in ordered.items():
            call = action.call
            assert call is not None
            tool, done, results = self.catalog.tools[call.tool], effects[one], final[one]
            if len(done) > 1 and tool.effect == "write" and not tool.idempotent:
                yield Finding("done_twice", f"{call.tool} {one}: {len(done)} times")
            if len(results) != 1:
                yield Finding("no_result", f"{call.tool} {one}: {len(results)} results")
                continue
            (result,) = results
            if tool.effect == "write" and any(each.at > result.occurred_at for each in done):
                yield Finding("done_late", f"{call.tool} {one}: published as {result.outcome}")
            claimed = result.outcome == "done"
            denied = result.outcome in ("denied", "failed") and tool.effect == "write"
            if (claimed and not done) or (denied and done):
                yield Finding("untrue_result", f"{one}: {result.outcome}, {len(done)} calls")
            if result.outcome == "outcome_unknown" and not self.crashes:
                yield Finding("unknown_unforced", f"{call.tool} {one}")

    def answers(self) -> Iterator[Finding]:
        composed = Counter(answer.action_id for _, answer in self.ledger.answers)
        for _, action in self.ledger.actions:
            if action.answer is not None and composed[action.action_id] != 1:
                yield Finding("no_answer", f"{action.action_id}: {composed[action.action_id]}")


_INPUTS: Final = frozenset(
    {
        "conversation.turns",
        "conversation.control",
        "tool.results",
        "conversation.answers",
        "conversation.labels",
        "conversation.timers",
    }
)


def _place(source: object) -> Place:
    topic: str = source.topic  # type: ignore[attr-defined]
    return (topic, source.partition, source.offset)  # type: ignore[attr-defined]
