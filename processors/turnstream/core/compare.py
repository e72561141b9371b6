"""What a candidate would have done, beside what was done."""

from collections.abc import Mapping
from typing import assert_never

from pydantic import JsonValue, TypeAdapter, ValidationError

from turnstream.core.contract import Decision
from turnstream.core.events import LiveAction
from turnstream.core.publications import ActionEvent, Verdict

_ARGUMENTS: TypeAdapter[Mapping[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def verdict_of(
    proposed: Decision, live_action: str, live_tool: str | None, live_field: str | None
) -> Verdict:
    """How near a proposal is to the live action.

    `same`: the same action, and the same tool or missing field where the live side names one.
    `same_action`: the same action with another tool or field. `unlabelled`: the live side does not
    say what it was, so nothing is guessed.
    """
    if live_action in ("unlabelled", "unrecognized"):
        return "unlabelled"
    if proposed.action != live_action:
        return "different"
    if live_tool is not None and live_tool != proposed.tool:
        return "same_action"
    if live_field is not None and live_field != proposed.missing_field:
        return "same_action"
    return "same"


def arguments_equal(proposed_json: str | None, live_json: str | None) -> bool | None:
    """Whether two calls have equal arguments; None where one side has none or cannot be read."""
    if proposed_json is None or live_json is None:
        return None
    try:
        return _ARGUMENTS.validate_json(proposed_json) == _ARGUMENTS.validate_json(live_json)
    except ValidationError:
        return None


def live_side(live: ActionEvent | LiveAction) -> tuple[str, str | None, str | None, str | None]:
    """Action, tool, missing field and arguments (JSON) of what was really done."""
    match live:
        case ActionEvent(decision=decision, call=call):
            arguments = call.arguments_json if call is not None else None
            return decision.action, decision.tool, decision.missing_field, arguments
        case LiveAction():
            return live.action, live.tool, live.missing_field, live.arguments_json
        case _ as unreachable:
            assert_never(unreachable)
