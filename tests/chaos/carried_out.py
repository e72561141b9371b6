"""What became of decided actions: calls made, answers composed, messages shown to the customer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from tests.chaos import logs
from tests.chaos.ledger import Finding, Ledger, header, place_of
from tests.chaos.offsets import journal_key
from turnstream.core.definitions import Catalog
from turnstream.core.events import ToolResult
from turnstream.core.identity import action_id
from turnstream.core.publications import ActionEvent, OutboundMessage

_TAKEOVER_MS: Final = 500
"""Shortest time from the record that a call is begun to the word of another owner that it was
interrupted. An executor that lost nothing says so at once; one that takes over after a loss comes
after a session, a start or a broker's absence, each of which takes much longer."""

_AT_ONCE_MS: Final = 250
"""Longest time that a process takes from looking for a key to its effect, unless it is stopped."""


def calls(
    ledger: Ledger, effects: Sequence[logs.Effect], *, catalog: Catalog, crashes: bool
) -> Iterator[Finding]:
    """Compare calls, their effects, their journal and their results."""
    ordered = {action.action_id: action for _, action in ledger.actions if action.call is not None}
    final: dict[str, list[ToolResult]] = defaultdict(list)
    for _, result in ledger.results:
        if result.action_id not in ordered:
            yield Finding("untrue_result", f"{result.action_id}: of no call")
        if result.final:
            final[result.action_id].append(result)
    made: dict[str, list[logs.Effect]] = defaultdict(list)
    for effect in effects:
        made[effect.action_id].append(effect)
    for one in made.keys() - ordered.keys():
        yield Finding("done_unasked", one)
    keys = {journal_key(action.conversation_id, one) for one, action in ordered.items()}
    for key in ledger.journal.keys() - keys:
        yield Finding("untrue_journal", f"{key!r} is no call")
    for one, action in ordered.items():
        call = action.call
        assert call is not None
        tool, done, results = catalog.tools[call.tool], made[one], final[one]
        journal = ledger.journal.get(journal_key(action.conversation_id, one), [])
        if tool.effect == "write" and _done_twice(done, idempotent=tool.idempotent):
            yield Finding("done_twice", f"{call.tool} {one}: {len(done)} times")
        begun = [at for at, phase in journal if phase == "started"]
        if done and not (begun and begun[0] <= min(each.at for each in done)):
            yield Finding("begun_unwritten", f"{call.tool} {one}")
        if len(results) != 1:
            yield Finding("no_result", f"{call.tool} {one}: {len(results)} results")
            continue
        yield from _of_result(results[0], action, done, journal, writes=tool.effect == "write")
        if results[0].outcome == "outcome_unknown" and not crashes:
            yield Finding("unknown_unforced", f"{call.tool} {one}")


def _done_twice(done: Sequence[logs.Effect], *, idempotent: bool) -> bool:
    """Whether a write had its effect more than once.

    A tool that knows its keys again has another effect only if two executors call it at the same
    time. One that was stopped between looking and acting acts late, whoever has called meanwhile:
    it has sent the call while the partition was its own.
    """
    if idempotent:
        done = [one for one in done if one.looked is None or one.at - one.looked < _AT_ONCE_MS]
    return len(done) > 1


def _of_result(
    result: ToolResult,
    action: ActionEvent,
    done: Sequence[logs.Effect],
    journal: Sequence[tuple[int, str]],
    *,
    writes: bool,
) -> Iterator[Finding]:
    """Compare a call's only final result with its effects and its journal."""
    call = action.call
    assert call is not None
    what = f"{call.tool} {result.action_id}"
    if writes and any(each.at > result.occurred_at for each in done):
        yield Finding("done_late", f"{what}: published as {result.outcome}")
    claimed = result.outcome == "done"
    denied = result.outcome in ("denied", "failed") and writes
    if (claimed and not done) or (denied and done):
        yield Finding("untrue_result", f"{what}: {result.outcome}, {len(done)} calls")
    about = (result.name, result.tool_call_id, result.conversation_id)
    if about != (call.tool, call.tool_call_id, action.conversation_id):
        yield Finding("untrue_result", f"{what}: is about {about}")
    phase = "outcome_unknown" if result.outcome == "outcome_unknown" else "done"
    if {each for _, each in journal if each != "started"} != {phase}:
        yield Finding("untrue_journal", f"{what}: {result.outcome}, and the journal {journal}")
    if result.error is not None and result.error.code == "interrupted":
        begun = [at for at, each in journal if each == "started"]
        if not begun or result.occurred_at - begun[0] < _TAKEOVER_MS:
            yield Finding("unknown_unforced", f"{what}: interrupted as soon as it was begun")


def answers(ledger: Ledger) -> Iterator[Finding]:
    """Compare what was to be answered with what was composed."""
    composed = Counter(answer.action_id for _, answer in ledger.answers)
    ordered = {action.action_id for _, action in ledger.actions if action.answer is not None}
    for one in composed.keys() | ordered:
        if composed[one] != (one in ordered):
            yield Finding("no_answer", f"{one}: {composed[one]}, ordered {one in ordered}")


def messages(ledger: Ledger, *, catalog: Catalog) -> Iterator[Finding]:
    """Compare what the customer sees with what was decided.

    A handoff need not be said: a late result only updates one of before. A question may be put
    again without an action, after a reply that was rejected.
    """
    sent = {(one.message_id, one.kind): (record, one) for record, one in ledger.messages}
    owed: dict[tuple[str, str], str] = {}
    may: set[tuple[str, str]] = set()
    for _, action in ledger.actions:
        if action.question is not None:
            owed[action.action_id, "question"] = action.question.text
        elif action.refusal is not None:
            owed[action.action_id, "refusal"] = action.refusal.text
        elif action.handoff is not None and action.channel_id in catalog.channels:
            event = ledger.sources.get(place_of(action.source), (None, None))[1]
            if isinstance(event, ToolResult):
                may.add((action.action_id, "handoff_notice"))
            else:
                owed[action.action_id, "handoff_notice"] = action.handoff.text
    for _, answer in ledger.answers:
        if answer.text is not None:
            owed[answer.action_id, "answer"] = answer.text
    for _, outcome in ledger.outcomes:
        if outcome.outcome == "rejected":
            may.add((action_id(outcome.conversation_id, outcome.source, 0), "question"))
    for one in owed.keys() - sent.keys():
        yield Finding("no_message", str(one))
    for one, (record, message) in sent.items():
        if one not in owed and one not in may:
            yield Finding("wrong_message", f"{one}: of nothing that was decided")
        elif owed.get(one, message.text) != message.text:
            yield Finding("wrong_message", f"{one}: another text")
        elif (header(record, "ce_source") == "turnstream/answer") != (message.kind == "answer"):
            yield Finding("wrong_message", f"{one}: of another role")
    for one, count in Counter(map(_named, (message for _, message in ledger.messages))).items():
        if count > 1:
            yield Finding("message_twice", f"{one}: {count} times")


def _named(message: OutboundMessage) -> tuple[str, str]:
    return (message.message_id, message.kind)
