"""A decider that follows a script, for tests and rehearsals.

It fails on a request that the script does not expect, and :meth:`ScriptedDecider.finish` fails on
a step that was never asked for: a test cannot pass because nothing happened.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turnstream.core.contract import Action, HandoffCause, ReasonCode, reason_for
from turnstream.core.ports import DeciderUnavailable, DecisionRequest, Proposal

CONFIDENCE_KIND = "scripted"


class UnexpectedRequest(AssertionError):
    """The script has no step for a request, or the request is not the expected one."""


class UnconsumedSteps(AssertionError):
    """The script ended with steps that were never asked for."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a script."""

    reply: Proposal | DeciderUnavailable
    """What to propose, or the failure to raise."""
    expects: Callable[[DecisionRequest], bool] | None = None
    """What must hold for the request; anything is accepted without it."""


@dataclass(slots=True)
class ScriptedDecider:
    """Replies with its steps in order."""

    steps: Sequence[Step]
    name: str = "scripted"
    requests: list[DecisionRequest] = field(default_factory=list)
    """Every request so far, oldest first."""

    def propose(self, request: DecisionRequest) -> Proposal:
        """Reply with the next step.

        Raises:
            UnexpectedRequest: no step is left, or the request is not the one that the step expects.
            DeciderUnavailable: the step says so.
        """
        at = len(self.requests)
        self.requests.append(request)
        if at >= len(self.steps):
            raise UnexpectedRequest(
                f"request {at + 1} has no step: the script has {len(self.steps)}"
            )
        step = self.steps[at]
        if step.expects is not None and not step.expects(request):
            raise UnexpectedRequest(f"request {at + 1} is not what its step expects: {request!r}")
        if isinstance(step.reply, DeciderUnavailable):
            raise step.reply
        return step.reply

    def finish(self) -> None:
        """Check that the script was played to its end.

        Raises:
            UnconsumedSteps: some steps were never asked for.
        """
        left = len(self.steps) - len(self.requests)
        if left > 0:
            raise UnconsumedSteps(f"{left} of {len(self.steps)} steps were never asked for")


def call(tool: str, *, confidence: float = 1.0) -> Proposal:
    """Propose a call."""
    return _proposal("call_tool", "lookup_required", confidence, tool=tool)


def ask(field_name: str, *, needed_for: str, confidence: float = 1.0) -> Proposal:
    """Propose a question."""
    return _proposal(
        "ask", "missing_input", confidence, missing_field=field_name, needed_for=needed_for
    )


def answer(answer_id: str, *, confidence: float = 1.0) -> Proposal:
    """Propose an approved answer."""
    return _proposal("answer", "context_sufficient", confidence, answer_id=answer_id)


def refuse(rule: str, *, confidence: float = 1.0) -> Proposal:
    """Propose a refusal."""
    return _proposal("refuse", "policy_block", confidence, rule=rule)


def hand_off(cause: HandoffCause | None = None) -> Proposal:
    """Propose a handoff; without a cause it is `unsupported`."""
    reason = reason_for(cause) if cause is not None else "unsupported"
    return _proposal("handoff", reason, 1.0, handoff_cause=cause)


def _proposal(
    action: Action,
    reason: ReasonCode,
    confidence: float,
    *,
    tool: str | None = None,
    missing_field: str | None = None,
    needed_for: str | None = None,
    answer_id: str | None = None,
    rule: str | None = None,
    handoff_cause: HandoffCause | None = None,
) -> Proposal:
    return Proposal(
        action=action,
        tool=tool,
        missing_field=missing_field,
        reason_code=reason,
        model="scripted",
        confidence=confidence,
        confidence_kind=CONFIDENCE_KIND,
        probabilities={action: 1.0},
        answer_id=answer_id,
        rule=rule,
        handoff_cause=handoff_cause,
        needed_for=needed_for,
    )
