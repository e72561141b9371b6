"""From what a model asked for to a call that may be made: parse, schema, provenance, rules.

An agent model writes arguments of its own. Each passes every gate or the call is not made: nothing
is made up, and a fault is told by path and keyword so that the model can correct it. Two changes
are made on the way, both by the tool's own schema and without loss: null that can only mean absent
is left out, and 3.0 is written 3 where the schema wants an integer. Everything else - ``"3"`` for
3, ``"false"`` for false - is refused.

Where an argument may come from is the catalog's to say, for a model as for code:

- What only the session or another tool's result provides is filled in here and was never shown to
  the model. One that it gives all the same must be the same.
- What the customer or the selected record provides must be what they said: the value that the
  conversation knows, or one that the customer wrote since the work began. A number from an earlier
  subject, or one that nobody ever named, passes no gate.
- What lists `model` may be anything that the schema and the rules allow: the words of a search.
  Where the session knows it as well, the session wins.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.core.allowed import unknown_tool
from turnstream.core.arguments import Filled, Found, find, typed
from turnstream.core.bounds import CALL_BYTES, FAULT_CHARACTERS, shortened
from turnstream.core.business_rules import broken_rule
from turnstream.core.contract import HandoffCause
from turnstream.core.conversation import Conversation
from turnstream.core.envelope import INVALID, UNKNOWN_TOOL, CallFault
from turnstream.core.events import Provenance
from turnstream.core.evolution import dataclass
from turnstream.core.facts import bounding_results, results_found
from turnstream.core.folding import folded
from turnstream.core.json_arguments import Unparsed, parsed
from turnstream.core.nulls import without_added_nulls
from turnstream.core.ports import ProposedCall
from turnstream.core.rendering import as_text
from turnstream.core.ruleset import ArgumentPlan, Ruleset
from turnstream.core.whole_numbers import with_whole_numbers
from turnstream.core.written_numbers import numbers_in, whole

_SPACES: Final = re.compile(r"\s+")

_HIDDEN: Final[frozenset[Provenance]] = frozenset({"session", "tool_result"})
"""Sources that only code reads."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a call is not made. The model may correct it, or do something else."""

    fault: CallFault
    lacking: str | None = None
    """The field that the fault is about, where the call needs it and the customer can say it."""
    cause: HandoffCause = "schema_fail"
    """What a person is told where nothing better comes."""


@dataclass(frozen=True, slots=True)
class Unentitled:
    """The session lacks a permission that these arguments need."""

    permission: str


def hidden_from_models(plan: ArgumentPlan) -> bool:
    """Whether code alone fills an argument."""
    return _HIDDEN.issuperset(plan.source.provenance)


def passed(
    call: ProposedCall, conversation: Conversation, ruleset: Ruleset
) -> Filled | Rejected | Unentitled:
    """Take a model's call through the gates."""
    tool = ruleset.catalog.tools.get(call.tool)
    if tool is None:
        # No near match: a call that was meant for another tool is not guessed.
        message = unknown_tool(conversation, ruleset)
        return Rejected(CallFault(UNKNOWN_TOOL, message, retryable=True))
    read = _read(call)
    if isinstance(read, Rejected):
        return read
    plans = {plan.name: plan for plan in ruleset.plans[call.tool]}
    subject = ruleset.catalog.subject_of_tool(call.tool)
    found = {name: find(plan, conversation, subject) for name, plan in plans.items()}
    given = without_added_nulls(read, schema=tool.input_schema).arguments
    given = with_whole_numbers(given, schema=tool.input_schema)
    arguments = {**given, **_filled_by_code(plans, found, given)}
    broken = _unfillable(plans, found) or _invalid(call.tool, arguments, ruleset)
    if broken is not None:
        return broken
    filled = _vouched(call.tool, arguments, conversation, ruleset, given=given, found=found)
    if isinstance(filled, Rejected):
        return filled
    return _breach(call.tool, filled, conversation, ruleset) or replace(filled, given=read)


def _read(call: ProposedCall) -> dict[str, JsonValue] | Rejected:
    """The first gate."""
    read = parsed(call.arguments)
    if isinstance(read, Unparsed):
        return _rejected(read.message, "", "parse")
    if len(to_json(read)) > CALL_BYTES:
        return _rejected(f"more than {CALL_BYTES} bytes of JSON", "", "parse")
    return read


def _invalid(tool: str, arguments: Mapping[str, JsonValue], ruleset: Ruleset) -> Rejected | None:
    """The second gate; what is absent is named by the place where it should be."""
    check = ruleset.checks.get(tool)
    broken = check(arguments) if check is not None else None
    if broken is None:
        return None
    schema, path = ruleset.catalog.tools[tool].input_schema, broken.path
    if broken.keyword == "required" and not path:
        needed = schema.get("required")
        names = needed if isinstance(needed, list) else []
        path = next((f"/{name}" for name in names if name not in arguments), "")
    name = path.split("/")[1] if path else ""
    if not _path(name, schema):
        path = ""
    plan = next((plan for plan in ruleset.plans[tool] if plan.name == name), None)
    return _rejected(broken.message, shortened(path, FAULT_CHARACTERS), broken.keyword, plan)


def _vouched(
    tool: str,
    arguments: Mapping[str, JsonValue],
    conversation: Conversation,
    ruleset: Ruleset,
    *,
    given: Mapping[str, JsonValue],
    found: Mapping[str, Found],
) -> Filled | Rejected:
    """The third gate: each value has its source."""
    plans = {plan.name: plan for plan in ruleset.plans[tool]}
    used = dict(arguments)
    provenance: dict[str, Provenance] = {}
    fields: dict[str, str] = {}
    for name, value in arguments.items():
        plan = plans.get(name)
        if plan is None:
            path = _path(name, ruleset.catalog.tools[tool].input_schema)
            return _rejected("the catalog names no source for it", path, "provenance")
        known = found[name]
        source = _source(given.get(name, value), plan, known, conversation, ruleset)
        if source is None:
            message = "not what the customer said, or they named several"
            return _rejected(message, f"/{name}", "provenance", plan)
        provenance[name], used[name] = source
        as_known = known.status == "known" and known.source == source[0]
        fields[plan.field] = known.value if as_known else _text(used[name])
    # A known value may stand for what the model wrote, and is checked like it.
    broken = _invalid(tool, used, ruleset) if used != arguments else None
    return broken or Filled(used, provenance, fields, missing=(), ambiguous=(), blocked=())


def _breach(
    tool: str, filled: Filled, conversation: Conversation, ruleset: Ruleset
) -> Rejected | Unentitled | None:
    """The last gate: the rules that the catalog declares for the tool."""
    session = conversation.session
    breach = broken_rule(
        ruleset.catalog.tools[tool].rules,
        filled.arguments,
        permissions=session.permissions if session is not None else (),
        found=results_found(conversation),
        fresh=bounding_results(conversation, tool, ruleset),
    )
    if breach is None:
        return None
    if breach.permission is not None:
        return Unentitled(breach.permission)
    if breach.unfounded:
        return _rejected(breach.message, f"/{breach.argument}", "rule")
    plan = next((plan for plan in ruleset.plans[tool] if plan.name == breach.argument), None)
    return _rejected(breach.message, f"/{breach.argument}", "rule", plan)


def _rejected(message: str, path: str, keyword: str, plan: ArgumentPlan | None = None) -> Rejected:
    lacking = plan.field if plan is not None and plan.required and plan.askable else None
    short = shortened(message, FAULT_CHARACTERS)
    return Rejected(CallFault(INVALID, short, path, keyword, retryable=True), lacking)


def _unfillable(plans: Mapping[str, ArgumentPlan], found: Mapping[str, Found]) -> Rejected | None:
    """What code alone could fill and cannot: no other arguments of the model would help."""
    for name, plan in plans.items():
        if plan.required and hidden_from_models(plan) and found[name].status != "known":
            path, origin = f"/{name}", plan.source.from_result
            if origin is None:
                message = "only an authenticated session provides it"
                fault = CallFault(INVALID, message, path, "provenance")
            else:
                message = f"comes from a result of {origin.partition('.')[0]}: call that first"
                fault = CallFault(INVALID, message, path, "provenance", retryable=True)
            return Rejected(fault, cause="tool_unavailable")
    return None


def _path(name: str, schema: Mapping[str, JsonValue]) -> str:
    """The path of an argument; empty for a name that only the model knows."""
    declared = schema.get("properties")
    return f"/{name}" if isinstance(declared, dict) and name in declared else ""


def _filled_by_code(
    plans: Mapping[str, ArgumentPlan], found: Mapping[str, Found], given: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """What a model cannot know, and what the session says where the model says nothing."""
    return {
        name: typed(found[name].value, plan)
        for name, plan in plans.items()
        if found[name].status == "known"
        and (hidden_from_models(plan) or (_of_session(found[name]) and name not in given))
    }


def _of_session(found: Found) -> bool:
    return found.status == "known" and found.source == "session"


def _source(
    value: JsonValue,
    plan: ArgumentPlan,
    found: Found,
    conversation: Conversation,
    ruleset: Ruleset,
) -> tuple[Provenance, JsonValue] | None:
    """Where a value comes from, and the value as it is used; None when nothing vouches for it."""
    if found.status == "known":
        known = typed(found.value, plan)
        if _equal(value, known) or (
            isinstance(value, str)
            and plan.field in ruleset.catalog.fields
            and ruleset.extractor.reply(plan.field, value) == (found.value,)
        ):
            return found.source, known
    if "model" in plan.source.provenance and not _of_session(found):
        return "model", value
    if found.status != "missing" or "message" not in plan.source.provenance:
        return None
    if _written(value, conversation) and _fits(value, plan, ruleset):
        return "message", value
    return None


def _fits(value: JsonValue, plan: ArgumentPlan, ruleset: Ruleset) -> bool:
    return plan.field not in ruleset.catalog.fields or ruleset.extractor.valid(
        plan.field, _text(value)
    )


def _written(value: JsonValue, conversation: Conversation) -> bool:
    """Whether the customer has written a value since the work began, as whole words or a number.

    A number that can be read in several ways vouches for none of them, and so does a percentage: 5%
    is no amount of 5.
    """
    activation = conversation.activation
    since = activation.spoken if activation is not None else conversation.spoken
    first = conversation.spoken - len(conversation.history)
    heard = conversation.history[max(since - first, 0) :]
    texts = [one.text for one in heard if one.role == "customer"]
    match value:
        case bool():
            return False
        case int() | float():
            number = Decimal(str(value))
            written = [one.text for text in texts for one in numbers_in(text) if not one.percent]
            return any(one is not None and Decimal(one) == number for one in written)
        case str():
            wanted = _plain(value)
            words = whole(wanted)
            exact = bool(wanted) and value == value.strip()
            return exact and any(words.search(_plain(text)) for text in texts)
    return False


def _plain(text: str) -> str:
    return _SPACES.sub(" ", folded(text)).strip()


def _equal(one: JsonValue, other: JsonValue) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _text(value: JsonValue) -> str:
    """A value as fields hold it: a whole number has no fraction, however it was written."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return as_text(value)
