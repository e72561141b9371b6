"""Everything that a run has written, as it was read, and what is still open."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from turnstream.core.events import (
    Answer,
    ConversationTurn,
    Event,
    Label,
    ToolResult,
)
from turnstream.core.publications import (
    ActionEvent,
    OutboundMessage,
    Outcome,
    ShadowComparison,
    ShadowProposal,
)
from turnstream.roles.decide import SOURCES
from turnstream.roles.intake import Intake
from turnstream.stream import Record, Rejected
from turnstream.stream.imprint import IMPRINT_KEY

Place = tuple[str, int, int]
"""Physical topic, partition, offset."""

Offsets = Mapping[tuple[str, int], int]
"""Physical topic and partition to an offset."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise broken."""

    check: str
    where: str


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter."""

    record: Record
    role: str
    """Who gave the record up."""
    stage: str
    """`intake` where no role could have read it, `handling` where this one alone gave it up."""
    reason: str
    pointer: bool
    """Whether it only names the record, which was too large to be repeated."""


@dataclass(slots=True)
class Ledger:
    """Committed records only."""

    intake: Intake
    """The checks that decide makes of its inputs."""
    logical: Mapping[str, str]
    """Physical topic name to its logical one."""
    decode: Callable[[str, bytes], Event]
    """Logical topic and value to event."""
    changelogs: Mapping[str, str]
    """Physical name of each changelog to its role."""
    with_calls: bool = True
    """Whether calls and answers are carried out in this run."""
    sources: dict[Place, tuple[Record, Event | None]] = field(default_factory=dict)
    """Decide's inputs; no event for those that it must refuse."""
    refused: dict[Place, str] = field(default_factory=dict)
    """Place of an input that must be refused to the reason."""
    actions: list[tuple[Record, ActionEvent]] = field(default_factory=list)
    outcomes: list[tuple[Record, Outcome]] = field(default_factory=list)
    results: list[tuple[Record, ToolResult]] = field(default_factory=list)
    answers: list[tuple[Record, Answer]] = field(default_factory=list)
    messages: list[tuple[Record, OutboundMessage]] = field(default_factory=list)
    letters: dict[tuple[str, Place], list[Letter]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Role and place of a record that it gave up to the letters about that."""
    labels: list[tuple[Record, Label]] = field(default_factory=list)
    proposals: list[tuple[Record, ShadowProposal]] = field(default_factory=list)
    comparisons: list[tuple[Record, ShadowComparison]] = field(default_factory=list)
    states: list[Record] = field(default_factory=list)
    """Decide's changelog."""
    kept: dict[str, dict[bytes, bytes | None]] = field(default_factory=lambda: defaultdict(dict))
    """Role to the latest value of each key of its changelog."""
    journal: dict[bytes, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    """Key in the executor's journal to the time (ms) and phase of each of its records."""
    writers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Logical topic and the role that its records name as their writer, empty where none."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """Topic and partition to the offset after the last record."""
    forgotten: dict[bytes, frozenset[bytes]] = field(default_factory=dict)
    """Conversations that were told to be forgotten, and what each of their turns is marked with."""
    not_forgotten: list[tuple[str, bytes]] = field(default_factory=list)
    """Role and conversation that were still there when they should not."""
    broken: list[Finding] = field(default_factory=list)
    """What was found while reading."""
    shadowed: bool = False
    """Whether classify and shadow have taken part from the beginning."""
    snapshots: dict[str, list[tuple[int, Offsets]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Role to times (ms) and the offsets that its group had committed then."""
    whole_until: int = sys.maxsize
    """Up to when (ms) all that was committed has been read: what was looked at later may have been
    finished by records that are still to be read."""
    turns: int = 0
    open: set[object] = field(default_factory=set)
    """Turns not decided yet, calls without a result, answers not composed yet."""
    settled: set[object] = field(default_factory=set)
    _gone: set[tuple[str, bytes]] = field(default_factory=set)
    """Role and conversation whose record has been removed after it was to be forgotten."""
    _marks: dict[tuple[str, str, bytes], list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Role, topic and key to the watermarks that its changelog names, rising, and their times."""

    def add(self, record: Record) -> None:
        """Take in a committed record; each topic partition in its order."""
        if record.key == IMPRINT_KEY:
            return
        self.ends[record.topic, record.partition] = record.offset + 1
        role = self.changelogs.get(record.topic)
        if role is not None:
            self._keep(role, record)
            return
        logical = self.logical[record.topic]
        if logical.endswith(".dlq"):
            self._letter(record)
            return
        writer = header(record, "ce_source").removeprefix("turnstream/")
        self.writers[logical, writer] += 1
        event: Event | None
        if logical in SOURCES:
            place = place_of(record)
            try:
                event = self.intake.admit(record)[1]
            except Rejected as rejected:
                event = None
                self.refused[place] = rejected.reason
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
                self._settle(place_of(event.source))
                if self.with_calls and event.call is not None:
                    self._opened(("call", event.action_id))
                if self.with_calls and event.answer is not None:
                    self._opened(("answer", event.action_id))
            case Outcome():
                self.outcomes.append((record, event))
                self._settle(place_of(event.source))
            case ToolResult():
                self.results.append((record, event))
                if event.final:
                    self._settle(("call", event.action_id))
            case Answer():
                self.answers.append((record, event))
                self._settle(("answer", event.action_id))
            case OutboundMessage():
                self.messages.append((record, event))
            case Label():
                self.labels.append((record, event))
            case ShadowProposal():
                self.proposals.append((record, event))
            case ShadowComparison():
                self.comparisons.append((record, event))
            case _:
                pass

    def look(self, role: str, offsets: Offsets, *, at: int) -> None:
        """Note what a role's group has committed.

        Args:
            role: its name.
            offsets: all that were read.
            at: when they had been read (ms).
        """
        snapshots = self.snapshots[role]
        before = snapshots[-1][1] if snapshots else {}
        for tp, offset in offsets.items():
            if offset < before.get(tp, 0):
                where = f"{role}: {tp} from {before[tp]} to {offset}"
                self.broken.append(Finding("offset_back", where))
        snapshots.append((at, offsets))

    def marked(self, role: str, topic: str, key: bytes, *, offset: int) -> int | None:
        """Give the time (ms) of the first changelog record that remembers an input; None: none."""
        marks = self._marks.get((role, topic, key), [])
        number = bisect_left(marks, (offset, 0))
        return marks[number][1] if number < len(marks) else None

    def given_up(self, role: str, place: Place) -> Letter | None:
        """The letter by which a role gave a record up."""
        letters = self.letters.get((role, place))
        return letters[0] if letters else None

    def forget(self, keys: Sequence[bytes]) -> None:
        """Note that conversations are told to be forgotten, all their turns having been read."""
        marks: dict[bytes, set[bytes]] = {key: set() for key in keys}
        for record, event in self.sources.values():
            if isinstance(event, ConversationTurn) and record.key in marks:
                marks[record.key].add(event.text.partition("]")[0].encode() + b"]")
        self.forgotten.update({key: frozenset(found) for key, found in marks.items()})

    def still_there(self) -> list[tuple[str, bytes]]:
        """Give the roles and conversations that have not been forgotten yet.

        The executor's journal is not meant: it protects against a second call for its retention.
        """
        return [
            (role, key)
            for role, latest in self.kept.items()
            for key in self.forgotten
            if role != "execute" and latest.get(key) is not None
        ]

    def _keep(self, role: str, record: Record) -> None:
        key, value = record.key or b"", record.value
        if role == "decide":
            self.states.append(record)
        self.kept[role][key] = value
        if value is not None:
            self._note(role, key, value, at=record.timestamp)
        if role == "execute" and value is not None:
            if b"[" + key.rpartition(b"/")[0] + b"/" in value:
                self.broken.append(Finding("text_in_journal", key.decode()))
        elif key in self.forgotten:
            if value is None:
                self._gone.add((role, key))
            elif (role, key) in self._gone and any(one in value for one in self.forgotten[key]):
                self.broken.append(Finding("remembered", f"{role}: {key.decode()}"))

    def _note(self, role: str, key: bytes, value: bytes, *, at: int) -> None:
        said = orjson.loads(value)
        if role == "execute":
            self.journal[key].append((at, said["phase"]))
        # A role that keeps only its progress uses one letter.
        for topic, offset in said.get("watermarks", said.get("w", {})).items():
            marks = self._marks[role, topic, key]
            if not marks or offset > marks[-1][0]:
                marks.append((offset, at))

    def _letter(self, record: Record) -> None:
        headers = {name: value.decode() for name, value in record.headers if value is not None}
        topic, partition, offset, role, stage, reason = (
            headers[f"turnstream.error.{name}"]
            for name in ("topic", "partition", "offset", "role", "stage", "reason")
        )
        place = (topic, int(partition), int(offset))
        pointer = "turnstream.error.pointer" in headers
        self.letters[role, place].append(Letter(record, role, stage, reason, pointer))
        # What another role gave up, this one has still to decide.
        if role == "decide":
            self._settle(place)

    def _opened(self, what: object) -> None:
        # Topics are read at different speeds: the end may be met before the beginning.
        if what not in self.settled:
            self.open.add(what)

    def _settle(self, what: object) -> None:
        self.settled.add(what)
        self.open.discard(what)


def place_of(source: object) -> Place:
    """The place of a record, or the one that a source names."""
    topic: str = source.topic  # type: ignore[attr-defined]
    return (topic, source.partition, source.offset)  # type: ignore[attr-defined]


def header(record: Record, wanted: str) -> str:
    """The value of a header; empty where there is none."""
    return next((value or b"" for name, value in record.headers if name == wanted), b"").decode()
