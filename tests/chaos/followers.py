"""What follows a decision: the labels of exchanges, and what a shadow made of the same inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from tests.chaos.fold import reply_of
from tests.chaos.ledger import Finding, Ledger, Place, header, place_of
from turnstream.core.events import Answer, ConversationTurn
from turnstream.core.identity import shadow_id

_ENDINGS: Final = 8
"""Endings that the classifier keeps of a conversation while their turns have not arrived."""
_TURNS: Final = 32
"""Turns of a conversation that the classifier knows."""
_UNSEEN_MS: Final = 20_000
"""How long before others can read it an event may have been stamped: its transaction waits for a
broker that is away."""


def labels(ledger: Ledger, ends: Mapping[str, int], *, idle_ms: int) -> Iterator[Finding]:
    """Compare labels with the ends of exchanges.

    An end is a question, a refusal, a handoff or a composed answer. Its label comes with it, or
    with its turn where that was read later. Only short conversations that were never told to
    end must have all of theirs: of others the classifier may not know the turn any more. Nor may
    it know one whose end came as late as conversations are let go: `decide` was away meanwhile.

    Args:
        ledger: all that is in the topics.
        ends: conversation to how often it was told to end.
        idle_ms: silence after which a conversation ends.
    """
    heard: dict[tuple[str, str], int] = {}
    """Exchange to the time of its turn."""
    late: set[tuple[str, str]] = set()
    endings: Counter[tuple[str, str]] = Counter()
    turns: Counter[str] = Counter()
    inputs = set(ledger.sources)
    for record, event in ledger.sources.values():
        if isinstance(event, ConversationTurn):
            turns[event.conversation_id] += 1
            exchange = (event.conversation_id, event.turn_id)
            at = min(record.timestamp, event.occurred_at)
            heard[exchange] = min(at, heard.get(exchange, at))

    def end(conversation_id: str, turn_id: str, at: int) -> None:
        exchange = (conversation_id, turn_id)
        endings[exchange] += 1
        if at - heard.get(exchange, at) > idle_ms - _UNSEEN_MS:
            late.add(exchange)

    for record, action in ledger.actions:
        inputs.add(place_of(record))
        if action.turn_id and (action.question or action.refusal or action.handoff):
            end(action.conversation_id, action.turn_id, record.timestamp)
    for record, answer in ledger.answers:
        if answer.text is not None and answer.turn_id:
            end(answer.conversation_id, answer.turn_id, record.timestamp)
    found: Counter[tuple[str, str]] = Counter()
    ids: Counter[str] = Counter()
    for record, label in ledger.labels:
        found[label.conversation_id, label.exchange_id] += 1
        one = header(record, "ce_id")
        ids[one] += 1
        topic, partition, offset, kind = one.rsplit("/", 3)
        if kind != "label" or (topic, int(partition), int(offset)) not in inputs:
            yield Finding("wrong_label", one)
    for one, count in ids.items():
        if count > 1:
            yield Finding("labelled_twice", f"{one}: {count} times")
    for exchange, count in found.items():
        if count > endings[exchange]:
            yield Finding("labelled_twice", f"{exchange}: {count}, ends {endings[exchange]}")
    ended = Counter(key for key, _ in endings.elements())
    for exchange in endings.keys() - found.keys() - late:
        key = exchange[0]
        if not ends.get(key) and ended[key] <= _ENDINGS and turns[key] <= _TURNS:
            yield Finding("no_label", str(exchange))


def shadow(ledger: Ledger, ends: Mapping[str, int], *, idle_ms: int) -> Iterator[Finding]:
    """Compare what a shadow proposed with what was decided.

    No proposal is due for what code alone decided, after the conversation's end, or where an input
    was decided about so late that its copy had been let go: `decide` was away meanwhile.

    Args:
        ledger: all that is in the topics.
        ends: conversation to how often it was told to end.
        idle_ms: silence after which a conversation ends; an input waits for twice that.
    """
    late = {
        place_of(action.source)
        for record, action in ledger.actions
        if (source := ledger.sources.get(place_of(action.source))) is not None
        and record.timestamp - source[0].timestamp > 2 * idle_ms - _UNSEEN_MS
    }
    decided = {place_of(action.source): action for _, action in ledger.actions}
    proposed: Counter[Place] = Counter()
    said = {place_of(one.source): one.decision for _, one in ledger.proposals}
    for _, proposal in ledger.proposals:
        place = place_of(proposal.source)
        proposed[place] += 1
        expected = shadow_id(proposal.conversation_id, proposal.source, "proposal")
        if proposal.proposal_id != expected or place not in decided:
            yield Finding("wrong_proposal", f"{proposal.proposal_id} about {place}")
    compared: Counter[Place] = Counter()
    for _, comparison in ledger.comparisons:
        place = place_of(comparison.source)
        compared[place] += 1
        expected = shadow_id(comparison.conversation_id, comparison.source, "comparison")
        live = decided.get(place)
        if comparison.comparison_id != expected:
            yield Finding("wrong_proposal", f"{comparison.comparison_id} about {place}")
        elif live is None or comparison.live_id != live.action_id:
            yield Finding("wrong_proposal", f"{place} compared with {comparison.live_id}")
        elif comparison.proposed != said.get(place, comparison.proposed):
            yield Finding("wrong_proposal", f"{place} compared with what was not proposed")
        elif comparison.live_action != live.decision.action:
            yield Finding("wrong_proposal", f"{place}: {comparison.live_action} was not done")
    for what, counts in (("proposals", proposed), ("comparisons", compared)):
        for place, count in counts.items():
            if count > 1:
                yield Finding("proposed_twice", f"{place}: {count} {what}")
    for place in proposed.keys() ^ compared.keys():
        yield Finding("wrong_proposal", f"{place}: a proposal or a comparison alone")
    for place, action in decided.items():
        # What waited for an answer is decided with it: a copy does not know that it waited.
        waited = isinstance(ledger.sources.get(place, (None, None))[1], Answer)
        asked = reply_of(action) is not None and not waited
        ended = ends.get(action.conversation_id) or place in late
        if asked and not proposed[place] and not ended:
            yield Finding("no_proposal", f"{place}: {action.action_id}")
