"""The decision contract: the closed list of next steps, and the table that ties its keys together.

A decision says *what kind of step comes next* and nothing else. Probabilities, confidence and the
text of an answer travel beside it. The wire form always has four keys, null written out::

    {"action": "ask", "tool": null, "missing_field": "order_id", "reason_code": "missing_input"}

The schema alone would allow incoherent combinations (a tool on a question, say), so every decision
is checked against :data:`TABLE`. A reply that breaks a row is blocked, never repaired into an
action.
"""

from collections.abc import Mapping
from typing import Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from turnstream.core.evolution import dataclass

Action = Literal["answer", "call_tool", "ask", "refuse", "handoff"]
ReasonCode = Literal[
    "context_sufficient",
    "lookup_required",
    "missing_input",
    "policy_block",
    "unsupported",
    "uncertain",
]
HandoffCause = Literal[
    "max_steps",
    "no_progress",
    "tool_unavailable",
    "outcome_unknown",
    "contradiction",
    "schema_fail",
    "flood",
    "below_threshold",
    "near_tie",
    "user_request",
    "user_cancel",
    "budget",
    "state_too_large",
    "stale_turn",
    "safety",
    "no_interactive_channel",
    "dead_letter",
    "stopped",
]

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
REASON_CODES: Final[tuple[ReasonCode, ...]] = get_args(ReasonCode)
HANDOFF_CAUSES: Final[tuple[HandoffCause, ...]] = get_args(HandoffCause)

UNCERTAIN_CAUSES: Final[frozenset[HandoffCause]] = frozenset(
    {"contradiction", "schema_fail", "below_threshold", "near_tie", "no_progress"}
)
"""Causes that mean "we do not know well enough"; every other cause means "we cannot"."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the contract table: what an action requires and allows."""

    tool: bool
    """True when `tool` is required, False when it must be null."""
    missing_field: bool
    """True when `missing_field` is required, False when it must be null."""
    reasons: frozenset[ReasonCode]
    """The reason codes that may accompany the action."""


TABLE: Final[Mapping[Action, Row]] = {
    "answer": Row(tool=False, missing_field=False, reasons=frozenset({"context_sufficient"})),
    "call_tool": Row(tool=True, missing_field=False, reasons=frozenset({"lookup_required"})),
    "ask": Row(tool=False, missing_field=True, reasons=frozenset({"missing_input"})),
    "refuse": Row(tool=False, missing_field=False, reasons=frozenset({"policy_block"})),
    "handoff": Row(
        tool=False, missing_field=False, reasons=frozenset({"unsupported", "uncertain"})
    ),
}


def faults(
    action: Action, tool: str | None, missing_field: str | None, reason_code: ReasonCode
) -> tuple[str, ...]:
    """Name every way in which the four keys break the table; empty when they agree with it.

    What was given as a tool or field is not repeated: it may be anything, and of any length.
    """
    row = TABLE[action]
    found: list[str] = []
    if row.tool and not tool:
        found.append(f"action {action!r} requires a tool")
    if not row.tool and tool is not None:
        found.append(f"action {action!r} forbids a tool")
    if row.missing_field and not missing_field:
        found.append(f"action {action!r} requires missing_field")
    if not row.missing_field and missing_field is not None:
        found.append(f"action {action!r} forbids missing_field")
    if reason_code not in row.reasons:
        allowed = ", ".join(sorted(row.reasons))
        found.append(f"action {action!r} allows reason_code {allowed}, got {reason_code!r}")
    return tuple(found)


class Decision(BaseModel):
    """The next step of a conversation, one row of the contract table.

    Raises:
        pydantic.ValidationError: an unknown or absent key, or a combination outside the table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Action
    tool: str | None
    missing_field: str | None
    reason_code: ReasonCode

    @model_validator(mode="after")
    def _agrees_with_the_table(self) -> Self:
        found = faults(self.action, self.tool, self.missing_field, self.reason_code)
        if found:
            raise ValueError("; ".join(found))
        return self


def reason_for(cause: HandoffCause) -> ReasonCode:
    """The reason code of a handoff with this cause."""
    return "uncertain" if cause in UNCERTAIN_CAUSES else "unsupported"
