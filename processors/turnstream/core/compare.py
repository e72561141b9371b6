"""What a candidate would have done, beside what was done."""

from collections.abc import Sequence

from pydantic import JsonValue, TypeAdapter, ValidationError

from turnstream.core.calls import call_fingerprint
from turnstream.core.contract import Decision
from turnstream.core.events import LiveAction
from turnstream.core.evolution import dataclass
from turnstream.core.publications import ActionEvent, Verdict

_ARGUMENTS: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class ComparedCall:
    """One call of a side; the calls of one reply are made together, in no order."""

    tool: str | None
    """Null where that side does not name it."""
    arguments_json: str | None


@dataclass(frozen=True, slots=True)
class Side:
    """What was really done, as far as it is said."""

    action: str
    missing_field: str | None
    calls: tuple[ComparedCall, ...]

    @property
    def tool(self) -> str | None:
        """The tool of its first call."""
        return self.calls[0].tool if self.calls else None


def calls_of(actions: Sequence[ActionEvent]) -> tuple[ComparedCall, ...]:
    """The calls of one decision."""
    return tuple(
        ComparedCall(one.call.tool, one.call.arguments_json)
        for one in actions
        if one.call is not None
    )


def live_side(live: Sequence[ActionEvent] | LiveAction) -> Side:
    """What was really done: the actions of one decision of ours, or what somebody else did."""
    if isinstance(live, LiveAction):
        calls = live.action == "call_tool"
        call = ComparedCall(live.tool, live.arguments_json)
        return Side(live.action, live.missing_field, (call,) if calls else ())
    decision = live[0].decision
    return Side(decision.action, decision.missing_field, calls_of(live))


def verdict_of(proposed: Decision, calls: Sequence[ComparedCall], live: Side) -> Verdict:
    """How near a proposal is to the live action.

    `same`: the same action, and the same tools or missing field where the live side names them.
    `same_action`: the same action with another tool or field, or with more or fewer calls.
    `unlabelled`: the live side does not say what it was, so nothing is guessed.
    """
    if live.action in ("unlabelled", "unrecognized"):
        return "unlabelled"
    if proposed.action != live.action:
        return "different"
    if live.tool is not None and _tools(calls) != _tools(live.calls):
        return "same_action"
    if live.missing_field is not None and live.missing_field != proposed.missing_field:
        return "same_action"
    return "same"


def arguments_equal(proposed: Sequence[ComparedCall], live: Sequence[ComparedCall]) -> bool | None:
    """Whether both sides call with equal arguments; None where one calls nothing, or unreadably.

    Of several calls each must have its like, the tool included.
    """
    paired = len(proposed) > 1 or len(live) > 1
    one, other = _fingerprints(proposed, paired=paired), _fingerprints(live, paired=paired)
    return None if one is None or other is None else one == other


def _tools(calls: Sequence[ComparedCall]) -> list[str]:
    return sorted(call.tool or "" for call in calls)


def _fingerprints(calls: Sequence[ComparedCall], *, paired: bool) -> list[str] | None:
    found: list[str] = []
    for call in calls:
        try:
            arguments = _ARGUMENTS.validate_json(call.arguments_json or "")
        except ValidationError:
            return None
        plain = {name: _plain(value) for name, value in arguments.items()}
        found.append(call_fingerprint((call.tool or "") if paired else "", plain))
    return sorted(found) or None


def _plain(value: JsonValue) -> JsonValue:
    """The same value, a whole number without its fraction: 3.0 is 3."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {name: _plain(one) for name, one in value.items()}
    return value
