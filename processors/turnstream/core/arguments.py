"""Where a tool's arguments come from, and whether they may be used.

Sources, per argument and in the catalog's order: `session` (authenticated by the gateway), `record`
(the object that the customer selected), `tool_result`, `message`. The session always wins. A value
of an older subject is not used without confirmation. More than one candidate, or a later message
value that differs from the record's, is ambiguous: the customer is asked, and the reply settles it.
What session or record knows is never asked.
"""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Literal

from pydantic import JsonValue

from turnstream.core.bounds import VALUE_CHARACTERS
from turnstream.core.conversation import Conversation, Value
from turnstream.core.events import Provenance
from turnstream.core.evolution import dataclass
from turnstream.core.ports import ToolOption
from turnstream.core.ruleset import ArgumentPlan, Ruleset

_NUMBER_CHARACTERS: Final = 40
"""Longest text that is read as a number; Python refuses integers of some thousand digits."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known about one field for one subject."""

    status: Literal["known", "ambiguous", "missing"]
    value: str = ""
    source: Provenance = "message"


_AMBIGUOUS: Final = Found("ambiguous")
_MISSING: Final = Found("missing")


@dataclass(frozen=True, slots=True)
class Filled:
    """The arguments of a call as far as they are known."""

    arguments: Mapping[str, JsonValue]
    provenance: Mapping[str, Provenance]
    fields: Mapping[str, str]
    """Field to the value used."""
    missing: tuple[str, ...]
    """Required fields that the customer may be asked for."""
    ambiguous: tuple[str, ...]
    """Fields with more than one candidate."""
    blocked: tuple[str, ...]
    """Required fields that cannot be asked for and are absent."""
    given: Mapping[str, JsonValue] | None = None
    """What an agent model gave, before code dropped or filled in anything; None when code alone
    filled the arguments."""


def usable(value: Value | None, conversation: Conversation, subject: str | None) -> bool:
    """Whether a value may be used for a request about `subject` (None: about the present one).

    It may when it was given about the present subject and the request is about that one too, or
    when it was given since the customer's turn that is being worked on.
    """
    if value is None:
        return False
    activation = conversation.activation
    if activation is not None and value.at_input >= activation.heard_from:
        return True
    return value.epoch == conversation.epoch and (
        subject is None or conversation.subject in (None, subject)
    )


def find(plan: ArgumentPlan, conversation: Conversation, subject: str) -> Found:
    """Look an argument up in its sources."""
    allowed = plan.source.provenance
    session = conversation.session
    if "session" in allowed and session is not None and plan.field in session.values:
        return Found("known", session.values[plan.field], "session")
    sources = conversation.values.get(plan.field)
    if sources is None:
        value = _from_result(plan, conversation, subject)
        return _MISSING if value is None else Found("known", value, "tool_result")
    record = sources.get("record") if "record" in allowed else None
    message = sources.get("message") if "message" in allowed else None
    record = record if usable(record, conversation, subject) else None
    message = message if usable(message, conversation, subject) else None
    if record is not None and message is not None:
        record, message = _weighed(record, message)
        if record is not None and message is not None:
            return _AMBIGUOUS
    if message is not None and len(message.candidates) > 1:
        return _AMBIGUOUS
    for provenance in allowed:
        if provenance == "record" and record is not None:
            return Found("known", record.candidates[0], "record")
        if provenance == "message" and message is not None:
            return Found("known", message.candidates[0], "message")
        if provenance == "tool_result":
            value = _from_result(plan, conversation, subject)
            if value is not None:
                return Found("known", value, "tool_result")
    return _MISSING


def settled(field: str, conversation: Conversation) -> str | None:
    """The one usable value of a field about the present subject; None in any doubt."""
    sources = conversation.values.get(field)
    if sources is None:
        return None
    record, message = sources.get("record"), sources.get("message")
    record = record if usable(record, conversation, None) else None
    message = message if usable(message, conversation, None) else None
    if record is not None and message is not None:
        record, message = _weighed(record, message)
        if record is not None and message is not None:
            return None
    value = record or message
    return value.candidates[0] if value is not None and len(value.candidates) == 1 else None


def fill(tool: str, conversation: Conversation, ruleset: Ruleset) -> Filled:
    """Work out the arguments of a tool from what the conversation knows."""
    subject = ruleset.catalog.subject_of_tool(tool)
    arguments: dict[str, JsonValue] = {}
    provenance: dict[str, Provenance] = {}
    fields: dict[str, str] = {}
    missing: list[str] = []
    ambiguous: list[str] = []
    blocked: list[str] = []
    for plan in ruleset.plans[tool]:
        found = find(plan, conversation, subject)
        if found.status == "known":
            arguments[plan.name] = typed(found.value, plan)
            provenance[plan.name] = found.source
            fields[plan.field] = found.value
        elif found.status == "ambiguous":
            ambiguous.append(plan.field)
        elif plan.required:
            (missing if plan.askable else blocked).append(plan.field)
    return Filled(arguments, provenance, fields, tuple(missing), tuple(ambiguous), tuple(blocked))


def options(conversation: Conversation, ruleset: Ruleset) -> tuple[ToolOption, ...]:
    """Every tool of the catalog as it stands for this conversation.

    A tool of which no field has a value stands as it does for a new conversation. Most do, most of
    the time, and this is asked for every decision.
    """
    valued: AbstractSet[str] = conversation.values.keys()
    if conversation.session is not None and conversation.session.values:
        valued = valued | conversation.session.values.keys()
    untouched = ruleset.untouched
    if conversation.facts:
        return tuple([_option(tool, conversation, ruleset) for tool in untouched])
    return tuple(
        [
            option if fields.isdisjoint(valued) else _option(tool, conversation, ruleset)
            for tool, (fields, option) in untouched.items()
        ]
    )


def _option(tool: str, conversation: Conversation, ruleset: Ruleset) -> ToolOption:
    subject = ruleset.catalog.subject_of_tool(tool)
    missing: list[str] = []
    ambiguous: list[str] = []
    blocked: list[str] = []
    for plan in ruleset.plans[tool]:
        status = find(plan, conversation, subject).status
        if status == "ambiguous":
            ambiguous.append(plan.field)
        elif status == "missing" and plan.required:
            (missing if plan.askable else blocked).append(plan.field)
    return ToolOption(tool, tuple(missing), tuple(ambiguous), tuple(blocked))


def typed(value: str, plan: ArgumentPlan) -> JsonValue:
    """A field's text as the JSON type that the argument's schema wants.

    The change is lossless or it is not made; the schema then refuses the text.
    """
    if not plan.types or "string" in plan.types:
        return value
    if "boolean" in plan.types and value in ("true", "false"):
        return value == "true"
    digits = value.removeprefix("-")
    if not digits.isascii() or "_" in digits or len(digits) > _NUMBER_CHARACTERS:
        return value
    if digits.isdigit() and ("integer" in plan.types or "number" in plan.types):
        return int(value)
    if "number" in plan.types and digits[:1].isdigit():
        try:
            number = float(value)
        except ValueError:
            return value
        return number if math.isfinite(number) else value
    return value


def _weighed(record: Value, message: Value) -> tuple[Value | None, Value | None]:
    """Which of two values counts: one alone, or both when only the customer can say."""
    if record.candidates == message.candidates:
        return record, None
    if message.at_input < record.changed_at:
        # The customer selected another record after writing this.
        return record, None
    if message.confirmed and message.changed_at >= record.changed_at:
        return None, message
    return record, message


def _from_result(plan: ArgumentPlan, conversation: Conversation, subject: str) -> str | None:
    """A value from the latest result, if that was about this subject or got for this request."""
    path = plan.source.from_result
    if path is None or not conversation.facts or "tool_result" not in plan.source.provenance:
        return None
    tool, _, name = path.partition(".")
    activation = conversation.activation
    for fact in reversed(conversation.facts):
        if fact.tool != tool or fact.superseded or fact.result is None:
            continue
        of_this_request = activation is not None and fact.at_input >= activation.opened_at_input
        of_this_subject = fact.epoch == conversation.epoch and conversation.subject == subject
        if not of_this_request and not of_this_subject:
            return None
        value = fact.result.get(name)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value)
            return text if len(text) <= VALUE_CHARACTERS else None
    return None
