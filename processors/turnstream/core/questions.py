"""The life of a question: how it is put, how it ends, and where its end is seen.

A question is open from the action that asks it until exactly one of four things ends it: an
accepted reply, its expiry, its cancellation by whatever else happens, or the end of the
conversation. The end is said once: in the action that the same input led to, or in an outcome
where there is no action.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from turnstream.core.bounds import SUGGESTIONS, cleaned
from turnstream.core.conversation import Conversation, EndedHow, Ending, OpenQuestion
from turnstream.core.definitions import localized
from turnstream.core.effects import Input, Publish
from turnstream.core.events import ConversationTurn
from turnstream.core.evolution import dataclass, evolved
from turnstream.core.identity import action_id
from turnstream.core.publications import (
    OutboundMessage,
    Outcome,
    OutcomeKind,
    OutcomeOf,
    Suggestion,
)
from turnstream.core.rendering import MissingValue, as_text, filled_in
from turnstream.core.ruleset import Ruleset

_REMEMBERED_QUESTIONS: Final = 16
"""Ended questions kept per conversation, to tell a repeated reply from a late one."""

_LONGEST_CANDIDATE: Final = 200
"""Longest value of the customer's own that is offered back: nobody picks a paragraph."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An approved question as the customer will see it."""

    text: str
    """Empty when the catalog has no question for the field."""
    locale: str
    suggestions: tuple[Suggestion, ...]

    @property
    def characters(self) -> int:
        """Its characters, with those around each suggestion."""
        return len(self.text) + sum(
            len(one.label) + len(one.value) + 32 for one in self.suggestions
        )


def locale_of(conversation: Conversation, ruleset: Ruleset) -> str:
    """The locale of everything that the customer reads."""
    if conversation.locale is not None:
        return conversation.locale
    channel = ruleset.catalog.channels.get(conversation.channel_id)
    default = channel.default_locale if channel is not None else None
    return default or ruleset.catalog.default_locale


def confirmation_of(
    field: str,
    tool: str,
    arguments: Mapping[str, JsonValue],
    conversation: Conversation,
    ruleset: Ruleset,
) -> Offer:
    """Put the question whether a call may be made, naming what it is made with.

    Nothing is offered from what was said before: a yes to another call is no yes to this one.
    """
    catalog = ruleset.catalog
    definition = catalog.fields[field]
    wanted = locale_of(conversation, ruleset)
    texts = definition.question_for.get(tool) or definition.question
    if not texts:
        return Offer("", wanted, ())
    locale, text = localized(texts, wanted, catalog.default_locale)
    try:
        text = filled_in(text, {name: as_text(value) for name, value in arguments.items()})
    except MissingValue:
        text = ""
    return Offer(cleaned(text), locale, ())


def offer_of(field: str, needed_for: str, conversation: Conversation, ruleset: Ruleset) -> Offer:
    """Put the question for a field, in the words that the catalog approved."""
    catalog = ruleset.catalog
    definition = catalog.fields[field]
    wanted = locale_of(conversation, ruleset)
    texts = definition.question_for.get(needed_for) or definition.question
    if not texts:
        return Offer("", wanted, ())
    locale, text = localized(texts, wanted, catalog.default_locale)
    known: list[str] = []
    for value in conversation.values.get(field, {}).values():
        known += [
            one for one in value.candidates if one not in known and len(one) <= _LONGEST_CANDIDATE
        ]
    # What the customer has named is nearer than what the catalog has in general.
    offered: Sequence[str] = known or definition.suggestions or tuple(definition.choices)
    suggestions = tuple(
        Suggestion(
            label=localized(definition.choices[value].label, locale, catalog.default_locale)[1]
            if value in definition.choices
            else value,
            value=value,
        )
        for value in offered[:SUGGESTIONS]
    )
    return Offer(text, locale, suggestions)


def ended(state: Conversation, how: EndedHow) -> Conversation:
    """End the open question, if there is one; `ending` says so until the step says it."""
    question = state.open_question
    if question is None:
        return state
    endings = {**state.ended_questions, question.question_id: how}
    if len(endings) > _REMEMBERED_QUESTIONS:
        del endings[next(iter(endings))]
    expiry = expiry_timer(question.question_id)
    return evolved(
        state,
        open_question=None,
        ending=Ending(question, how),
        ended_questions=endings,
        timers=tuple(one for one in state.timers if one.timer_id != expiry),
    )


def with_yes_or_no(state: Conversation, question: OpenQuestion, reply: str) -> Conversation:
    """Keep the reply to a question whether a call may be made, for that very call."""
    activation = state.activation
    if question.confirms is None or activation is None:
        return state
    confirming = {**activation.confirming, question.confirms: reply == "true"}
    return evolved(state, activation=evolved(activation, confirming=confirming))


def expiry_timer(question_id: str) -> str:
    """The id of the timer of a question's expiry."""
    return f"question_expiry/{question_id}"


def end_said(state: Conversation, cause: Input) -> tuple[Conversation, tuple[Publish, ...]]:
    """Say in an outcome that a question has ended, where no action will."""
    ending = state.ending
    if ending is None:
        return state, ()
    said = outcome(state, cause, "question", ending.how, question_id=ending.question.question_id)
    return evolved(state, ending=None), (said,)


def late_reply(question_id: str) -> Ending:
    """What the action says of a reply to a question that is not open any more."""
    unknown = OpenQuestion(
        question_id=question_id,
        field="",
        needed_for="",
        text="",
        locale="",
        suggestions=(),
        restricted=False,
        asked_at=0,
        expires_at=None,
    )
    return Ending(unknown, "late")


def asked_again(state: Conversation, cause: Input, question: OpenQuestion) -> Publish:
    """The same question once more, after a reply that was none."""
    return Publish(
        OutboundMessage(
            message_id=action_id(cause.conversation_id, cause.source, cause.given_up),
            conversation_id=cause.conversation_id,
            tenant_id=state.tenant_id,
            channel_id=state.channel_id,
            kind="question",
            text=question.text,
            locale=question.locale,
            suggestions=question.suggestions,
            question_id=question.question_id,
            sequence=state.sequence,
            occurred_at=cause.now,
        )
    )


def outcome(
    state: Conversation,
    cause: Input,
    of: OutcomeOf,
    kind: OutcomeKind,
    *,
    turn: ConversationTurn | None = None,
    question_id: str | None = None,
) -> Publish:
    """What became of an input that led to no action of its own."""
    return Publish(
        Outcome(
            of=of,
            outcome=kind,
            conversation_id=cause.conversation_id,
            source=cause.source,
            turn_id=turn.turn_id if turn is not None else None,
            question_id=question_id,
            input_no=state.input_no,
            occurred_at=cause.now,
        )
    )
