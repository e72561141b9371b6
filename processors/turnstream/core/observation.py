"""How a message enters the state: history, session, values with their source.

Nothing is decided here. A decider's shadow observes the same turns with the same functions.

Values: what the session knows is authenticated and replaced by each customer turn. What the
selected record says and what the customer writes are kept side by side, so that a contradiction
between them can be seen. A later message value replaces an earlier one everywhere: an outstanding
call that was ordered with the old value is marked `superseded`, and its result will not be used.
The same happens when another customer is authenticated: what was got for one is not for the other.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

from pydantic_core import to_json

from turnstream.core.bounds import (
    LOCALE_CHARACTERS,
    SESSION_BYTES,
    VALUE_CHARACTERS,
    VALUES_BYTES,
    exceeds,
    latest,
    shortened,
)
from turnstream.core.conversation import (
    Conversation,
    Fact,
    OpenQuestion,
    Outstanding,
    Spoken,
    Value,
)
from turnstream.core.events import ConversationTurn, Passage, Provenance, SessionClaims
from turnstream.core.evolution import dataclass, evolved
from turnstream.core.identity import text_hash, turn_hash
from turnstream.core.ruleset import Limits, Ruleset

Values = Mapping[str, Mapping[Provenance, Value]]


class History(TypedDict):
    """Fields of the state that a message changes."""

    history: tuple[Spoken, ...]
    spoken: int


def with_message(conversation: Conversation, message: Spoken, limits: Limits) -> History:
    """The history with one more message."""
    return {
        "history": _remembered(conversation.history, message, limits),
        "spoken": conversation.spoken + 1,
    }


def _remembered(history: tuple[Spoken, ...], message: Spoken, limits: Limits) -> tuple[Spoken, ...]:
    """Append a message, cutting it and the oldest ones to the limits."""
    text = shortened(message.text, limits.message_characters)
    if text is not message.text:
        message = replace(message, text=text)
    history = (*history, message)
    if len(history) > limits.history_messages:
        history = history[-limits.history_messages :]
    characters = sum([len(one.text) for one in history])
    while characters > limits.history_characters:
        characters -= len(history[0].text)
        history = history[1:]
    return history


def is_echo(conversation: Conversation, turn: ConversationTurn, limits: Limits) -> bool:
    """Whether a turn that no customer wrote is one of our own messages coming back."""
    return (
        turn.echo_of is not None
        or turn.role == "assistant"
        or (turn.actor_id is not None and turn.actor_id in limits.bot_actors)
        or text_hash(turn.text) in conversation.sent
    )


def repetition(conversation: Conversation, turn: ConversationTurn) -> bool | None:
    """True when this very turn was seen before, False when its id came with another content.

    None for a new turn.
    """
    if not conversation.turn_ids:
        return None
    known = conversation.turn_ids.get(text_hash(turn.turn_id))
    return None if known is None else known == turn_hash(turn)


def noted(conversation: Conversation, turn: ConversationTurn, limits: Limits) -> Mapping[str, str]:
    """The remembered turns with this one, the oldest forgotten at the limit."""
    turn_ids = {**conversation.turn_ids, text_hash(turn.turn_id): turn_hash(turn)}
    if len(turn_ids) > limits.remembered_turns:
        del turn_ids[next(iter(turn_ids))]
    return turn_ids


def listen(
    conversation: Conversation, turn: ConversationTurn, *, at: int, ruleset: Ruleset
) -> Conversation:
    """Enter a turn of any role into the history and remember its id.

    Channel, tenant and locale are the customer's: a person may write from elsewhere.
    """
    limits = ruleset.limits
    role = "system" if turn.role == "unrecognized" else turn.role
    mine = role == "customer"
    locale = turn.locale if mine else None
    if locale is not None and (len(locale) > LOCALE_CHARACTERS or not locale.isprintable()):
        locale = None
    return evolved(
        conversation,
        **with_message(conversation, Spoken(role, turn.text, turn.occurred_at), limits),
        turn_ids=noted(conversation, turn, limits),
        channel_id=turn.channel_id if mine else conversation.channel_id or turn.channel_id,
        tenant_id=(turn.tenant_id if mine else None) or conversation.tenant_id or turn.tenant_id,
        locale=locale or conversation.locale,
        updated_at=at,
    )


@dataclass(frozen=True, slots=True)
class Heard:
    """What a customer turn has told."""

    state: Conversation
    overflow: bool = False
    """True when claims or values did not fit; they are then not in the state."""
    replied: tuple[str, ...] = ()
    """The candidates that the turn offers for the open question's field, as a reply to it."""
    corrects: bool = False
    """True when it gives another value for something that is outstanding."""


def learn(
    conversation: Conversation,
    turn: ConversationTurn,
    ruleset: Ruleset,
    *,
    question: OpenQuestion | None,
) -> Heard:
    """Take over what a customer turn says: claims, the selected record, values in its text.

    Args:
        conversation: the state, the turn being in its history already.
        turn: the turn.
        ruleset: the compiled catalog and limits.
        question: the open question that the turn may be a reply to. That reply is read by the
            question's field; all other fields by extraction.
    """
    offered = dict(ruleset.extractor.candidates(turn.text)) if turn.text else {}
    replied: tuple[str, ...] = ()
    if question is not None and question.field in ruleset.catalog.fields:
        replied = _reply(question, turn, ruleset)
        if replied:
            offered[question.field] = replied
        elif question.restricted:
            offered.pop(question.field, None)
    draft = _Draft(conversation, turn)
    if turn.selected_record is not None:
        for field, value in turn.selected_record.values.items():
            if (
                field in ruleset.catalog.fields
                and len(value) <= VALUE_CHARACTERS
                and ruleset.extractor.valid(field, value)
            ):
                draft.set(field, "record", (value,))
    for field, candidates in offered.items():
        confirmed = question is not None and field == question.field and len(candidates) == 1
        draft.set(field, "message", candidates, confirmed=confirmed and bool(replied))
    overflow = bool(draft.changed) and exceeds(
        draft.values, VALUES_BYTES, characters=_characters(draft.values)
    )
    values = conversation.values if overflow else draft.values
    changed = frozenset[str]() if overflow else frozenset(draft.changed)
    session = turn.session_claims
    if session is not None and exceeds(
        session, SESSION_BYTES, characters=_characters_of_claims(session)
    ):
        overflow, session = True, None
    state = _with_corrections(conversation, values, changed)
    state = _of_another_customer(state, session, ruleset)
    activation = state.activation
    if changed and activation is not None:
        activation = evolved(activation, progress=activation.progress + 1)
    state = evolved(
        state,
        session=session,
        values=values,
        unanswered=latest(
            (*state.unanswered, shortened(turn.text, ruleset.limits.message_characters))
        ),
        passages=_bounded(turn.passages, ruleset.limits) if turn.passages else (),
        activation=activation,
    )
    corrects = bool(conversation.outstanding) and any(
        _differs(one.fields, values, changed) for one in conversation.outstanding
    )
    return Heard(state, overflow, () if overflow else replied, corrects)


class _Draft:
    """The values of a conversation while a turn is read."""

    def __init__(self, conversation: Conversation, turn: ConversationTurn) -> None:
        self.values: dict[str, Mapping[Provenance, Value]] = dict(conversation.values)
        self.changed: set[str] = set()
        """Fields with news: another value, one of an older subject said again, one confirmed."""
        self._turn_id = turn.turn_id
        self._epoch = conversation.epoch
        self._at = conversation.input_no

    def set(
        self,
        field: str,
        provenance: Provenance,
        candidates: tuple[str, ...],
        *,
        confirmed: bool = False,
    ) -> None:
        """Record what one source says about a field."""
        sources = self.values.get(field, {})
        before = sources.get(provenance)
        same = before is not None and before.candidates == candidates
        kept = before if same else None
        value = Value(
            candidates=candidates,
            turn_id=self._turn_id,
            epoch=self._epoch,
            at_input=self._at,
            changed_at=kept.changed_at if kept is not None and not confirmed else self._at,
            confirmed=confirmed or (kept is not None and kept.confirmed),
        )
        self.values[field] = {**sources, provenance: value}
        if kept is None or kept.epoch != self._epoch or (confirmed and not kept.confirmed):
            self.changed.add(field)


def _reply(question: OpenQuestion, turn: ConversationTurn, ruleset: Ruleset) -> tuple[str, ...]:
    """What the turn answers; to a restricted question only one of its values is an answer."""
    wanted = turn.text.strip().casefold()
    for one in question.suggestions:
        if wanted in (one.label.casefold(), one.value.casefold()):
            return (one.value,)
    given = ruleset.extractor.reply(question.field, turn.text)
    if not question.restricted:
        return given
    definition = ruleset.catalog.fields[question.field]
    allowed = {*definition.suggestions, *definition.choices}
    allowed.update(one.value for one in question.suggestions)
    return given if all(value in allowed for value in given) else ()


def _with_corrections(
    conversation: Conversation, values: Values, changed: frozenset[str]
) -> Conversation:
    """Mark the calls and results whose values have been corrected."""
    if not changed or not (conversation.outstanding or conversation.facts):
        return conversation
    return evolved(
        conversation,
        outstanding=tuple(
            _superseded(one) if _differs(one.fields, values, changed) else one
            for one in conversation.outstanding
        ),
        facts=tuple(
            _withdrawn(fact) if _differs(fact.fields, values, changed) else fact
            for fact in conversation.facts
        ),
    )


def _of_another_customer(
    conversation: Conversation, session: SessionClaims | None, ruleset: Ruleset
) -> Conversation:
    """Withdraw what belongs to one customer when another one is authenticated."""
    before = conversation.session
    known = before.subject_id if before is not None else None
    if known is None or (session is not None and session.subject_id == known):
        return conversation
    tools = ruleset.catalog.tools
    public = {name for name, tool in tools.items() if tool.data_scope == "public"}
    activation = conversation.activation
    if activation is not None and (activation.loop or activation.confirming):
        # What a model has said since may repeat what it was told about the other customer.
        activation = evolved(activation, loop=(), confirming={})
    return evolved(
        conversation,
        activation=activation,
        outstanding=tuple(
            one if one.kind == "answer" or one.name in public else _superseded(one)
            for one in conversation.outstanding
        ),
        facts=tuple(
            fact if fact.tool in public else _withdrawn(fact) for fact in conversation.facts
        ),
    )


def _superseded(ordered: Outstanding) -> Outstanding:
    return ordered if ordered.superseded else replace(ordered, superseded=True)


def _withdrawn(fact: Fact) -> Fact:
    return fact if fact.superseded else replace(fact, superseded=True)


def _differs(fields: Mapping[str, str], values: Values, changed: frozenset[str]) -> bool:
    """Whether the customer has just given another value for one of these fields."""
    for field in changed:
        if field in fields:
            message = values[field].get("message")
            if message is not None and message.candidates != (fields[field],):
                return True
    return False


def _bounded(passages: tuple[Passage, ...], limits: Limits) -> tuple[Passage, ...]:
    kept: list[Passage] = []
    size = 2
    for passage in passages:
        size += len(to_json(passage)) + 1
        if size > limits.passages_bytes:
            break
        kept.append(passage)
    return tuple(kept)


def _characters(values: Values) -> int:
    """An upper bound on the characters that values take, with what surrounds them."""
    return sum(
        len(field) + 80 + len(value.turn_id or "") + sum(len(one) + 4 for one in value.candidates)
        for field, sources in values.items()
        for value in sources.values()
    )


def _characters_of_claims(session: SessionClaims) -> int:
    total = 64 + len(session.subject_id or "")
    total += sum(len(one) + 4 for one in session.permissions)
    return total + sum(len(field) + len(value) + 8 for field, value in session.values.items())
