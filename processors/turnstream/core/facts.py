"""What a tool's result means for the conversation, before any model sees it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from turnstream.core.bounds import ERROR_CODE_CHARACTERS, shortened
from turnstream.core.business_rules import LookedUpRangeRule
from turnstream.core.contract import HandoffCause
from turnstream.core.conversation import Conversation, Fact, Outstanding
from turnstream.core.events import ToolOutcome, ToolResult
from turnstream.core.ruleset import Limits, Ruleset

TOO_LARGE: Final = "result_too_large"
"""Error code of a result that does not fit the conversation's record."""

UNREADABLE: Final = "result_unreadable"
"""Error code of a result that is not a JSON object, or holds a number that JSON does not have."""

_DEPTH: Final = 100
"""Deepest nesting of a result: the reader of records ends with an error at twice as much."""

_OVERHEAD_BYTES: Final = 400
"""Bytes of a fact beside its result, its error code and the values it was called with."""


def fact_of(
    result: ToolResult, ordered: Outstanding, conversation: Conversation, ruleset: Ruleset
) -> Fact:
    """Take a final result over into the state.

    What the executor says of the outcome is kept also when the result itself cannot be: a write
    that was done stays done.
    """
    outcome = _outcome(result, ordered)
    body: Mapping[str, JsonValue] | None = None
    error_code = None
    if result.error is not None:
        error_code = shortened(result.error.code, ERROR_CODE_CHARACTERS)
    size = _OVERHEAD_BYTES + len(to_json(ordered.fields)) + len(to_json(error_code))
    if outcome == "done" and result.result_json is not None:
        body = _object(result.result_json)
        if body is None:
            error_code = UNREADABLE
        else:
            length = len(to_json(body))
            if length > ruleset.limits.result_bytes:
                body, error_code = None, TOO_LARGE
            else:
                size += length
    return Fact(
        action_id=result.action_id,
        tool=ordered.name,
        outcome=outcome,
        result=body,
        error_code=error_code,
        superseded=ordered.superseded,
        at_input=conversation.input_no,
        epoch=conversation.epoch,
        fields=ordered.fields,
        size=size,
    )


def with_fact(
    facts: tuple[Fact, ...], fact: Fact, *, opened: int, limits: Limits
) -> tuple[Fact, ...]:
    """Append a fact. Those of finished work make room first; work under way loses none.

    Args:
        facts: those known, oldest first.
        fact: the new one.
        opened: input number at which the work under way began.
        limits: the deployment's.

    Returns:
        The facts, the last one without its result and marked `result_too_large` when even so it
        does not fit.
    """
    kept = (*facts, fact)
    total = sum([one.size for one in kept])
    while kept[0].at_input < opened and (
        total > limits.facts_bytes or len(kept) > limits.remembered_facts
    ):
        total -= kept[0].size
        kept = kept[1:]
    if total <= limits.facts_bytes:
        return kept
    bare = without_result(fact)
    return (*_fitting(kept[:-1], limits.facts_bytes - bare.size), bare)


def with_lost_writes(state: Conversation, limits: Limits) -> tuple[Fact, ...]:
    """The facts, with one for each write whose result nobody waits for any more.

    It may have been carried out, or still be: what was looked up before it holds no more.
    """
    facts = state.facts
    for one in state.outstanding:
        if one.write:
            lost = Fact(
                action_id=one.action_id,
                tool=one.name,
                outcome="outcome_unknown",
                result=None,
                error_code=None,
                superseded=one.superseded,
                at_input=state.input_no,
                epoch=state.epoch,
                fields={},
                size=_OVERHEAD_BYTES,
            )
            facts = with_fact(facts, lost, opened=state.input_no, limits=limits)
    return facts


def without_result(fact: Fact) -> Fact:
    """What is kept of a fact whose result does not fit."""
    return replace(fact, result=None, error_code=TOO_LARGE, size=_OVERHEAD_BYTES, fields={})


def results_found(conversation: Conversation) -> dict[str, list[Mapping[str, JsonValue]]]:
    """Tool to the results of it that may be used, oldest first."""
    found: dict[str, list[Mapping[str, JsonValue]]] = {}
    for fact in conversation.facts:
        if (result := _usable(fact)) is not None:
            found.setdefault(fact.tool, []).append(result)
    return found


def bounding_results(
    conversation: Conversation, tool: str, ruleset: Ruleset
) -> dict[str, list[Mapping[str, JsonValue]]]:
    """The same, as far as they may bound the amounts of a call of a tool.

    A write uses up what the tools have found that bound it, for every other write as well: an
    order's balance holds no more once a part of it is paid. One that may have been carried out
    does so too.
    """
    tools = ruleset.catalog.tools
    if tools[tool].effect != "write":
        return results_found(conversation)
    found: dict[str, list[Mapping[str, JsonValue]]] = {}
    for fact in conversation.facts:
        if (result := _usable(fact)) is not None:
            found.setdefault(fact.tool, []).append(result)
        called = tools.get(fact.tool)
        if called is None or called.effect != "write":
            continue
        if fact.outcome in ("done", "outcome_unknown"):
            for rule in called.rules:
                if isinstance(rule, LookedUpRangeRule):
                    found.pop(rule.tool, None)
    return found


def _usable(fact: Fact) -> Mapping[str, JsonValue] | None:
    return fact.result if not fact.superseded and fact.outcome == "done" else None


def supports(fact: Fact, answer_id: str, ruleset: Ruleset) -> bool:
    """Whether an approved answer may present this fact.

    It may when the call was done, or when the catalog names the answer for the call's error.
    """
    if fact.superseded or fact.error_code in (TOO_LARGE, UNREADABLE):
        return False
    if fact.outcome == "done":
        return True
    tool = ruleset.catalog.tools.get(fact.tool)
    rule = tool.errors.get(fact.error_code or "") if tool is not None else None
    return fact.outcome == "failed" and rule is not None and rule.answer == answer_id


def stopping_cause(facts: Iterable[Fact], ruleset: Ruleset) -> HandoffCause | None:
    """Why no model is asked about these results, if so.

    An unknown outcome is never smoothed over, also when its call has been superseded: something may
    have happened. A failure that the catalog gives no answer for has been through its retries.
    Missing data is not an outage: the customer is never made to repeat input because a service is
    down.
    """
    found: HandoffCause | None = None
    for fact in facts:
        if fact.outcome == "outcome_unknown":
            return "outcome_unknown"
        if fact.superseded:
            continue
        if fact.error_code == TOO_LARGE:
            found = "state_too_large"
        elif fact.error_code == UNREADABLE:
            found = found or "tool_unavailable"
        elif fact.outcome != "done":
            tool = ruleset.catalog.tools.get(fact.tool)
            rule = tool.errors.get(fact.error_code or "") if tool is not None else None
            if fact.outcome == "denied" or rule is None or rule.answer is None:
                found = found or "tool_unavailable"
    return found


def _outcome(result: ToolResult, ordered: Outstanding) -> ToolOutcome:
    match result.outcome:
        case "unrecognized":
            # A newer executor's word for something: a write may have had its effect.
            return "outcome_unknown" if ordered.write else "failed"
        case "done" if not result.ok:
            return "failed"
        case known:
            return known


def _object(text: str) -> Mapping[str, JsonValue] | None:
    try:
        found = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return found if isinstance(found, dict) and _storable(found) else None


def _storable(value: JsonValue, depth: int = _DEPTH) -> bool:
    """False for what no record can hold.

    A number may have overflowed: 1e999 is read as infinity, which JSON cannot write. And what is
    nested deeper could be written and never be read again.
    """
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return depth > 0 and all(_storable(one, depth - 1) for one in value.values())
        case list():
            return depth > 0 and all(_storable(one, depth - 1) for one in value)
    return True


def _fitting(facts: tuple[Fact, ...], limit: int) -> tuple[Fact, ...]:
    total = sum(one.size for one in facts)
    while facts and total > limit:
        total -= facts[0].size
        facts = facts[1:]
    return facts
