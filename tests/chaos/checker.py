"""Verifies a run from its topics and the log of its side effects, and from nothing else.

Each check has a name; a finding says which promise was broken, and where.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos import logs, shop
from tests.chaos.carried_out import answers, calls, messages
from tests.chaos.fold import Folder, Handled, reply_of
from tests.chaos.followers import labels, shadow
from tests.chaos.ledger import Finding, Ledger, Letter, Place, place_of
from tests.chaos.offsets import is_end, passed
from turnstream.core.definitions import Catalog
from turnstream.core.events import ConversationTurn
from turnstream.core.identity import action_id, decision_id
from turnstream.core.publications import ActionEvent, Outcome, ShadowComparison, ShadowProposal
from turnstream.stream import Record

__all__ = ["CHECKS", "Finding", "Ledger", "check"]

CHECKS: Final[Mapping[str, str]] = {
    "undecided_turn": "every turn has its actions, its outcome or its dead letter",
    "decided_twice": "every turn has only one of them, and every action is published once",
    "wrong_id": "ids are functions of the input",
    "not_committed": "only committed records are decided",
    "astray": "what is written has its conversation's key and its input's partition",
    "wrong_letter": "only what must be given up is a dead letter, its bytes untouched",
    "dead_twice": "a record has one dead letter",
    "order": "a conversation's actions come in the order of its inputs",
    "overlap": "a conversation is decided by one task at a time",
    "offset_passed": "committed offsets never pass an unfinished input",
    "offset_back": "committed offsets never go back",
    "state": "the state is what a fresh fold of the inputs gives, with the replies of the log",
    "unlogged_reply": "a decision is made of a reply that its decider has given",
    "done_twice": "a write has at most one side effect per action",
    "done_unasked": "side effects belong to published actions",
    "begun_unwritten": "a call is in the journal before it is made",
    "untrue_journal": "the journal says what the results say",
    "done_late": "no side effect begins after its outcome was published",
    "untrue_result": "a result says what happened",
    "no_result": "every call has its final result, and one only",
    "no_answer": "every answer is composed, and once",
    "message_twice": "the customer sees every message once",
    "no_message": "the customer sees every question, refusal, handoff and composed answer",
    "wrong_message": "the customer sees nothing else, and the text that was decided",
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
    "stopped_badly": "a worker that is asked to stop ends with exit status 0",
}
"""Name of each check to the promise that it verifies."""


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
    run = _Run(ledger, fold)
    ends = run.ends()
    found = [
        *ledger.broken,
        *(Finding("not_forgotten", f"{role}: {key!r}") for role, key in ledger.not_forgotten),
        *run.decisions(),
        *run.letters(),
        *run.places(),
        *run.writers(),
        *run.order(),
        *run.states(),
        *passed(ledger),
        *messages(ledger, catalog=catalog),
        *(Finding("overlap", key) for key in logs.overlaps(folder)),
    ]
    if ledger.with_calls:
        found += calls(ledger, logs.effects(folder), catalog=catalog, crashes=crashes)
        found += answers(ledger)
    if ledger.shadowed:
        idle_ms = fold.ruleset.limits.conversation_ttl_ms
        found += labels(ledger, ends, idle_ms=idle_ms)
        found += shadow(ledger, ends, idle_ms=idle_ms)
    return found


@dataclass(slots=True)
class _Run:
    ledger: Ledger
    fold: Folder

    def decisions(self) -> Iterator[Finding]:
        ledger = self.ledger
        batches: dict[Place, set[str]] = defaultdict(set)
        said: Counter[Place] = Counter()
        given = {reply.number for each in self.fold.replies.values() for reply in each}
        for _, action in ledger.actions:
            place = place_of(action.source)
            batches[place].add(action.decision_id)
            expected = (
                action_id(action.conversation_id, action.source, action.batch_index),
                decision_id(action.conversation_id, action.source),
            )
            if expected != (action.action_id, action.decision_id):
                yield Finding("wrong_id", action.action_id)
            number = reply_of(action)
            if number is not None and number not in given:
                yield Finding("unlogged_reply", f"{action.action_id}: {number}")
        for _, outcome in ledger.outcomes:
            if outcome.of != "question":
                said[place_of(outcome.source)] += 1
        for place in {*batches, *said}:
            if place not in ledger.sources:
                yield Finding("not_committed", str(place))
        for place, (_, event) in ledger.sources.items():
            letter = ledger.given_up("decide", place)
            ways = len(batches[place]) + said[place]
            if event is None:
                if letter is None:
                    yield Finding("undecided_turn", f"{place}: refused, and no dead letter")
                if ways:
                    yield Finding("decided_twice", f"{place}: refused, and decided")
            elif isinstance(event, ConversationTurn):
                if ways > 1:
                    yield Finding("decided_twice", str(place))
                elif not ways and letter is None:
                    yield Finding("undecided_turn", str(place))
        for one, count in Counter(action.action_id for _, action in ledger.actions).items():
            if count > 1:
                yield Finding("decided_twice", f"action {one}: published {count} times")
        ended = Counter(
            (place_of(outcome.source), outcome.question_id)
            for _, outcome in ledger.outcomes
            if outcome.of == "question"
        )
        for end, count in ended.items():
            if count > 1:
                yield Finding("decided_twice", f"end of question {end}: said {count} times")

    def letters(self) -> Iterator[Finding]:
        """Compare dead letters with what they are about.

        Of what can be read, only `decide` gives anything up: what its core refuses, which the fold
        shows, and where its decider has a defect.
        """
        ledger = self.ledger
        records = {place_of(record): record for record, _ in ledger.actions}
        records |= {place: record for place, (record, _) in ledger.sources.items()}
        defects = {
            record.key
            for record, event in ledger.sources.values()
            if isinstance(event, ConversationTurn) and shop.BUG in event.text
        }
        about: Counter[tuple[str, Place]] = Counter()
        for (role, place), letters in ledger.letters.items():
            for letter in letters:
                # Of what no role can read there is one letter, whoever wrote it.
                about["" if letter.stage == "intake" else role, place] += 1
                record = records.get(place)
                if record is None:
                    yield Finding("not_committed", f"{role} gave up {place}")
                    continue
                why = ledger.refused.get(place)
                due = (
                    (letter.stage, letter.reason) == ("intake", why)
                    if why is not None
                    else letter.stage == "handling"
                    and letter.reason != "state_unreadable"
                    and (letter.reason != "handler_failed" or record.key in defects)
                )
                if role != "decide" or not due:
                    reason = f"{letter.reason} at {letter.stage}"
                    yield Finding("wrong_letter", f"{role} gave up {place}: {reason}")
                elif not _is_untouched(letter, record):
                    yield Finding("wrong_letter", f"{role}: not the record at {place}")
        for (_, place), count in about.items():
            if count > 1:
                yield Finding("dead_twice", f"{place}: {count} letters")

    def places(self) -> Iterator[Finding]:
        """Compare the key and partition of what was written with the input that led to it."""
        ledger = self.ledger
        written: list[tuple[Record, ActionEvent | Outcome | ShadowProposal | ShadowComparison]] = [
            *ledger.actions,
            *ledger.outcomes,
            *ledger.proposals,
            *ledger.comparisons,
        ]
        for record, event in written:
            expected = (event.conversation_id.encode(), event.source.partition)
            if (record.key, record.partition) != expected:
                yield Finding("astray", str(place_of(record)))
        partitions = {record.key: record.partition for record, _ in ledger.actions}
        for record, message in ledger.messages:
            key = message.conversation_id.encode()
            if record.key != key or record.partition != partitions.get(key, record.partition):
                yield Finding("astray", str(place_of(record)))

    def writers(self) -> Iterator[Finding]:
        """Compare who wrote with who may; what others write names none of our roles."""
        for (logical, role), count in self.ledger.writers.items():
            if role not in _WRITERS.get(logical, {""}):
                yield Finding("wrong_writer", f"{role or 'nobody'}: {count} records of {logical}")

    def order(self) -> Iterator[Finding]:
        last: dict[str, ActionEvent] = {}
        # An end is the only thing after which a conversation counts from one again.
        ends = self.ends()
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

    def ends(self) -> Counter[str]:
        """Conversation to how often it was told to end."""
        return Counter(
            (record.key or b"").decode()
            for record, event in self.ledger.sources.values()
            if is_end(event)
        )

    def states(self) -> Iterator[Finding]:
        ledger = self.ledger
        inputs: dict[bytes, list[Handled]] = defaultdict(list)
        actions: dict[Place, list[ActionEvent]] = defaultdict(list)
        outcomes: dict[Place, list[Outcome]] = defaultdict(list)
        for _, action in ledger.actions:
            actions[place_of(action.source)].append(action)
        for _, outcome in ledger.outcomes:
            outcomes[place_of(outcome.source)].append(outcome)
        for place, (record, event) in sorted(ledger.sources.items()):
            if event is not None and record.key is not None:
                letter = ledger.given_up("decide", place)
                reason = letter.reason if letter is not None else None
                inputs[record.key].append(
                    Handled(record, event, actions[place], outcomes[place], reason)
                )
        kept: dict[bytes, list[Record]] = defaultdict(list)
        for record in ledger.states:
            if record.key is not None:
                kept[record.key].append(record)
        for key, handled in inputs.items():
            fault = self.fold.difference(key.decode(), handled, kept[key])
            if fault:
                yield Finding("state", f"{key.decode()}: {fault}")
        for role, latest in ledger.kept.items():
            if role != "execute":
                for key in latest.keys() - inputs.keys():
                    yield Finding("state", f"{role}: {key!r} has no input")


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


def _is_untouched(letter: Letter, record: Record) -> bool:
    """Whether a dead letter repeats its record; one that was too large is only named."""
    given = letter.record
    headers = tuple(record.headers)
    if given.topic != f"{record.topic}.dlq":
        return False
    return letter.pointer or (given.key, given.value, tuple(given.headers)[: len(headers)]) == (
        record.key,
        record.value,
        headers,
    )
