"""What a conversation knows, put together for those who go on with it: an answer, or a person."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.arguments import settled
from turnstream.core.conversation import Conversation
from turnstream.core.publications import CallMade, KnownValue
from turnstream.core.rendering import as_text
from turnstream.core.ruleset import Ruleset
from turnstream.core.verdicts import HandOff

_SUMMARY_CHARACTERS: Final = 280
"""Characters of the customer's last message in a handoff's summary; the history has the rest."""


def answer_values(answer_id: str, conversation: Conversation, ruleset: Ruleset) -> dict[str, str]:
    """The values of an approved answer's placeholders.

    The tool's result comes first, then what the tool was called with, then what is known.
    """
    answer = ruleset.catalog.answers[answer_id]
    result: Mapping[str, JsonValue] = {}
    called_with: Mapping[str, str] = {}
    error: str | None = None
    for fact in reversed(conversation.facts):
        if fact.tool == answer.of_tool and not fact.superseded:
            result, called_with, error = fact.result or {}, fact.fields, fact.error_code
            break
    values: dict[str, str] = {}
    for name in ruleset.placeholders[answer_id]:
        if name in result:
            values[name] = as_text(result[name])
        elif name in called_with:
            values[name] = called_with[name]
        elif name == "error" and error is not None:
            values[name] = error
        elif (known := settled(name, conversation)) is not None:
            values[name] = known
    return values


def summary_of(verdict: HandOff, conversation: Conversation) -> str:
    """Why a person is needed, and what the customer wrote last."""
    parts: list[str] = [verdict.cause or verdict.reason]
    if verdict.detail is not None:
        parts.append(verdict.detail)
    last = next(
        (one.text for one in reversed(conversation.history) if one.role == "customer"), None
    )
    if last is not None:
        parts.append(f"last message: {last[:_SUMMARY_CHARACTERS]}")
    return "; ".join(parts)


def known_values(conversation: Conversation) -> tuple[KnownValue, ...]:
    """Every value of the conversation with its source."""
    session = conversation.session
    found = [
        KnownValue(field=field, value=value, source="session", epoch=conversation.epoch)
        for field, value in (session.values.items() if session is not None else ())
    ]
    for field, sources in conversation.values.items():
        found += [
            KnownValue(
                field=field,
                value=candidate,
                source=source,
                turn_id=value.turn_id,
                epoch=value.epoch,
            )
            for source, value in sources.items()
            for candidate in value.candidates
        ]
    return tuple(found)


def calls_made(conversation: Conversation) -> tuple[CallMade, ...]:
    """The calls whose results are remembered, and those that have not come back."""
    made = [
        CallMade(action_id=fact.action_id, tool=fact.tool, outcome=fact.outcome)
        for fact in conversation.facts
    ]
    made += [
        CallMade(action_id=one.action_id, tool=one.name, outcome="pending")
        for one in conversation.outstanding
        if one.kind == "call"
    ]
    return tuple(made)
