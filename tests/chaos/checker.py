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
from tests.chaos.fold import Folder, Handled, reply_of
from turnstream.core.definitions import Catalog
from turnstream.core.events import (
    Answer,
    ConversationControl,
    ConversationTurn,
    Event,
    Label,
    Timer,
    ToolResult,
)
from turnstream.core.identity import action_id, shadow_id
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

CHECKS: Final[Mapping[str, str]] = {
    "undecided_turn": "every turn has its actions, its outcome or its dead letter",
    "decided_twice": "every turn has only one of them, and every action is published once",
    "wrong_id": "an action's id is a function of its input",
    "not_committed": "only committed records are decided",
    "order": "a conversation's actions come in the order of its inputs",
    "overlap": "a conversation is decided by one task at a time",
    "offset_passed": "committed offsets never pass an unfinished input",
    "state": "the state is what a fresh fold of the inputs gives, with the replies of the log",
    "unlogged_reply": "a decision is made of a reply that its decider has given",
    "done_twice": "a write has at most one side effect per action",
    "done_unasked": "side effects belong to published actions",
    "done_late": "no side effect begins after its outcome was published",
    "untrue_result": "a result says what happened",
    "no_result": "every call has its final result, and one only",
    "no_answer": "every answer is composed, and once",
    "message_twice": "the customer sees every message once",
    "unknown_unforced": "a call is interrupted by a crash only",
    "wrong_writer": "a role writes its own topics and no others; a shadow never acts",
    "labelled_twice": "an ending has one label, and an input leads to one",
    "wrong_label": "a label's id is that of the input which brought it about",
    "no_label": "the end of an exchange is labelled",
    "proposed_twice": "a shadow proposes and compares at most once per decision",
    "wrong_proposal": "a shadow's proposal belongs to a decision, and its id to the input",
    "no_proposal": "a shadow proposes beside the decisions that it has seen",
    "not_forgotten": "a forgotten conversation has no record left in any changelog",
    "remembered": "nothing that was forgotten comes back",
    "text_in_journal": "the executor's journal outlives a conversation and holds no word of it",
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
    changelogs: Mapping[str, str]
    """Physical name of each changelog to its role."""
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
    labels: list[tuple[Record, Label]] = field(default_factory=list)
    proposals: list[tuple[Record, ShadowProposal]] = field(default_factory=list)
    comparisons: list[tuple[Record, ShadowComparison]] = field(default_factory=list)
    states: list[Record] = field(default_factory=list)
    """Decide's changelog."""
    kept: dict[str, dict[bytes, bytes | None]] = field(default_factory=lambda: defaultdict(dict))
    """Role to the latest value of each key of its changelog."""
    writers: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Logical topic and the role that its records name as their writer."""
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
    _gone: set[tuple[str, bytes]] = field(default_factory=set)
    """Role and conversation whose record has been removed after it was to be forgotten."""
    snapshots: list[tuple[int, Mapping[tuple[str, int], int]]] = field(default_factory=list)
    """Time (ms) and the offsets that decide's group had committed then."""
    turns: int = 0
    open: set[object] = field(default_factory=set)
    """Turns not decided yet, calls without a result, answers not composed yet."""
    settled: set[object] = field(default_factory=set)

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
        if writer := _header(record, "ce_source"):
            self.writers[logical, writer.removeprefix("turnstream/")] += 1
        event: Event | None
        if logical in SOURCES:
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
            case Label():
                self.labels.append((record, event))
            case ShadowProposal():
                self.proposals.append((record, event))
            case ShadowComparison():
                self.comparisons.append((record, event))
            case _:
                pass

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
        if role == "execute" and value is not None:
            if b"[" + key.rpartition(b"/")[0] + b"/" in value:
                self.broken.append(Finding("text_in_journal", key.decode()))
        elif key in self.forgotten:
            if value is None:
                self._gone.add((role, key))
            elif (role, key) in self._gone and any(one in value for one in self.forgotten[key]):
                self.broken.append(Finding("remembered", f"{role}: {key.decode()}"))

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
        *ledger.broken,
        *(Finding("not_forgotten", f"{role}: {key!r}") for role, key in ledger.not_forgotten),
        *run.decisions(),
        *run.writers(),
        *run.order(),
        *run.offsets(),
        *run.states(),
        *(Finding("overlap", key) for key in shop.overlaps(folder)),
    ]
    if ledger.with_calls:
        found += [*run.calls(), *run.answers()]
    if ledger.shadowed:
        found += [*run.labels(), *run.shadow()]
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
        given = {reply.number for each in self.fold.replies.values() for reply in each}
        for _, action in ledger.actions:
            place = _place(action.source)
            batches[place].add(action.decision_id)
            expected = action_id(action.conversation_id, action.source, action.batch_index)
            if expected != action.action_id:
                yield Finding("wrong_id", action.action_id)
            number = reply_of(action)
            if number is not None and number not in given:
                yield Finding("unlogged_reply", f"{action.action_id}: {number}")
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

    def writers(self) -> Iterator[Finding]:
        for (logical, role), count in self.ledger.writers.items():
            if role not in _WRITERS.get(logical, ()):
                yield Finding("wrong_writer", f"{role}: {count} records of {logical}")

    def order(self) -> Iterator[Finding]:
        last: dict[str, ActionEvent] = {}
        # An end is the only thing after which a conversation counts from one again.
        ends = self._ends()
        for _, action in self.ledger.actions:
            key = action.conversation_id
            before = last.get(key)
            last[key] = action
            if before is None:
                continue
            anew = action.input_no < before.input_no
            if anew:
                ends[key] -= 1
            if (
                action.sequence <= before.sequence
                or ends[key] < 0
                or any(
                    action.seen.get(topic, seen if anew or ends[key] else -1) < seen
                    for topic, seen in before.seen.items()
                )
            ):
                yield Finding("order", f"{before.action_id} before {action.action_id}")

    def _ends(self) -> Counter[str]:
        """Conversation to how often it was told to end."""
        return Counter(
            event.conversation_id
            for _, event in self.ledger.sources.values()
            if (isinstance(event, ConversationControl) and event.kind in ("close", "forget"))
            or (isinstance(event, Timer) and event.kind == "conversation_close")
        )

    def offsets(self) -> Iterator[Finding]:
        """Compare committed offsets with the time at which each input was finished.

        Watermarks say when; those of a conversation that was told to end may never be written.
        """
        ends = self._ends()
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
                key = (self.ledger.sources[place][0].key or b"").decode(errors="replace")
                if finished.get(place, passed + 1) > passed and not ends[key]:
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
        kept: dict[bytes, list[Record]] = defaultdict(list)
        for record in ledger.states:
            if record.key is not None:
                kept[record.key].append(record)
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

    def labels(self) -> Iterator[Finding]:
        """Compare labels with the ends of exchanges.

        An end is a question, a refusal, a handoff or a composed answer. Its label comes with it, or
        with its turn where that was read later. Only short conversations that were never told to
        end must have all of theirs: others may have left the classifier's window.
        """
        ledger = self.ledger
        endings: Counter[tuple[str, str]] = Counter()
        said: Counter[str] = Counter()
        inputs = set(ledger.sources)
        for record, action in ledger.actions:
            inputs.add((record.topic, record.partition, record.offset))
            if action.question or action.refusal or action.handoff:
                said[action.conversation_id] += 1
                if action.turn_id:
                    endings[action.conversation_id, action.turn_id] += 1
        for _, answer in ledger.answers:
            if answer.text is not None:
                said[answer.conversation_id] += 1
                if answer.turn_id:
                    endings[answer.conversation_id, answer.turn_id] += 1
        for _, event in ledger.sources.values():
            if isinstance(event, ConversationTurn):
                said[event.conversation_id] += 1
        labels: Counter[tuple[str, str]] = Counter()
        ids: Counter[str] = Counter()
        for record, label in ledger.labels:
            labels[label.conversation_id, label.exchange_id] += 1
            one = _header(record, "ce_id")
            ids[one] += 1
            topic, partition, offset, kind = one.rsplit("/", 3)
            if kind != "label" or (topic, int(partition), int(offset)) not in inputs:
                yield Finding("wrong_label", one)
        for one, count in ids.items():
            if count > 1:
                yield Finding("labelled_twice", f"{one}: {count} times")
        for exchange, count in labels.items():
            if count > endings[exchange]:
                yield Finding("labelled_twice", f"{exchange}: {count}, ends {endings[exchange]}")
        ended = self._ends()
        for exchange in endings.keys() - labels.keys():
            if not ended[exchange[0]] and said[exchange[0]] <= _WINDOW:
                yield Finding("no_label", str(exchange))

    def shadow(self) -> Iterator[Finding]:
        """Compare what a shadow proposed with what was decided.

        No proposal is due for what code alone decided, or after the conversation's end.
        """
        ledger = self.ledger
        decided = {_place(action.source): action for _, action in ledger.actions}
        by_id = {action.action_id for _, action in ledger.actions}
        proposed: Counter[Place] = Counter()
        for _, proposal in ledger.proposals:
            place = _place(proposal.source)
            proposed[place] += 1
            expected = shadow_id(proposal.conversation_id, proposal.source, "proposal")
            if proposal.proposal_id != expected or place not in decided:
                yield Finding("wrong_proposal", f"{proposal.proposal_id} about {place}")
        compared: Counter[Place] = Counter()
        for _, comparison in ledger.comparisons:
            place = _place(comparison.source)
            compared[place] += 1
            if comparison.live_id not in by_id:
                yield Finding("wrong_proposal", f"compared with {comparison.live_id}")
        for what, counts in (("proposals", proposed), ("comparisons", compared)):
            for place, count in counts.items():
                if count > 1:
                    yield Finding("proposed_twice", f"{place}: {count} {what}")
        for place in proposed.keys() ^ compared.keys():
            yield Finding("wrong_proposal", f"{place}: a proposal or a comparison alone")
        ended = self._ends()
        for place, action in decided.items():
            # What waited for an answer is decided with it: a copy does not know that it waited.
            waited = isinstance(ledger.sources[place][1], Answer)
            asked = reply_of(action) is not None and not waited
            if asked and not proposed[place] and not ended[action.conversation_id]:
                yield Finding("no_proposal", f"{place}: {action.action_id}")


_WINDOW: Final = 8
"""Messages of a conversation that the classifier keeps."""

_WRITERS: Final[Mapping[str, frozenset[str]]] = {
    "conversation.actions": frozenset({"decide"}),
    "conversation.outcomes": frozenset({"decide"}),
    "conversation.timers": frozenset({"decide"}),
    "conversation.outbound": frozenset({"decide", "answer"}),
    "conversation.answers": frozenset({"answer"}),
    "conversation.labels": frozenset({"classify"}),
    "tool.results": frozenset({"execute"}),
    "shadow.proposals": frozenset({"shadow"}),
    "shadow.comparisons": frozenset({"shadow"}),
}
"""Logical topic to the roles that write it."""


def _place(source: object) -> Place:
    topic: str = source.topic  # type: ignore[attr-defined]
    return (topic, source.partition, source.offset)  # type: ignore[attr-defined]


def _header(record: Record, wanted: str) -> str:
    return next((value or b"" for name, value in record.headers if name == wanted), b"").decode()
