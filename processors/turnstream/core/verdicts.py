"""What is to be done: the verdicts that a proposal leads to, and the fault that leads to none."""

from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import Final, TypeVar, assert_never

from pydantic import JsonValue

from turnstream.core.arguments import Filled
from turnstream.core.contract import Action, Decision, HandoffCause, ReasonCode, reason_for
from turnstream.core.conversation import Activation, Conversation
from turnstream.core.envelope import Envelope
from turnstream.core.evolution import dataclass
from turnstream.core.ports import Proposal
from turnstream.core.questions import Offer
from turnstream.core.ruleset import Ruleset


@dataclass(frozen=True, slots=True)
class AnswerWith:
    """Give an approved answer, or a model's own text."""

    answer_id: str | None
    text: str | None
    output: Mapping[str, JsonValue] | None = None
    """The whole final answer, of which the text is a part, where its agent declares a schema."""
    output_version: str | None = None
    """The declared version of that schema."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool."""

    tool: str
    filled: Filled
    fingerprint: str
    """Hash of tool and arguments, for the no-progress stop."""
    call_id: str | None = None
    """The agent model's id of the call; None when code filled the arguments."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Make the calls of one reply, concurrently."""

    calls: tuple[Call, ...]
    """At least one."""
    rejected: tuple[Envelope, ...]
    """What the model is told of the calls that passed a gate not."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the customer for a field."""

    field: str
    needed_for: str
    offer: Offer
    """The approved question as it will be asked."""
    confirms: str | None = None
    """Fingerprint of the call that the question is to confirm."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse what a rule of the catalog forbids."""

    rule: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class HandOff:
    """Bring a person in."""

    cause: HandoffCause | None
    reason: ReasonCode
    detail: str | None = None
    diagnostics: Mapping[str, JsonValue] = field(default_factory=dict)
    """What is published beside the detail, where no proposal led to it."""


Verdict = AnswerWith | Call | Batch | Ask | Refuse | HandOff


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a proposal cannot be acted on."""

    cause: HandoffCause
    """`contradiction` or `schema_fail`: what the handoff says if the fault remains."""
    message: str
    """Names the fault for the decider's next try: names of the catalog, no customer text."""
    rejected: tuple[Envelope, ...] = ()
    """What an agent model is told of each of its calls."""
    lacking: tuple[str, str] | None = None
    """The field that a call lacks, and its tool, where the customer can provide it."""
    final: bool = False
    """Whether the tries that there are have been used up."""


def action_of(verdict: Verdict) -> Action:
    """The action of the contract that a verdict is."""
    match verdict:
        case AnswerWith():
            return "answer"
        case Call() | Batch():
            return "call_tool"
        case Ask():
            return "ask"
        case Refuse():
            return "refuse"
        case HandOff():
            return "handoff"
        case _ as unreachable:
            assert_never(unreachable)


def decision_of(verdict: AnswerWith | Call | Ask | Refuse | HandOff) -> Decision:
    """The row of the contract that a verdict fills; each call of a batch fills its own."""
    match verdict:
        case AnswerWith():
            return _ANSWER
        case Call(tool=tool):
            return _calling(tool)
        case Ask(field=field):
            return _asking(field)
        case Refuse():
            return _REFUSE
        case HandOff(reason=reason):
            return _HANDOFF[reason]
        case _ as unreachable:
            assert_never(unreachable)


# One decision per tool and per field, made once: both come from the catalog, which is finite.
@lru_cache(maxsize=1024)
def _calling(tool: str) -> Decision:
    return Decision(
        action="call_tool", tool=tool, missing_field=None, reason_code="lookup_required"
    )


@lru_cache(maxsize=1024)
def _asking(field: str) -> Decision:
    return Decision(action="ask", tool=None, missing_field=field, reason_code="missing_input")


_ANSWER: Final = Decision(
    action="answer", tool=None, missing_field=None, reason_code="context_sufficient"
)
_REFUSE: Final = Decision(
    action="refuse", tool=None, missing_field=None, reason_code="policy_block"
)
_HANDOFF: Final = {
    reason: Decision(action="handoff", tool=None, missing_field=None, reason_code=reason)
    for reason in ("unsupported", "uncertain")
}


def handed_off(cause: HandoffCause, detail: str | None = None) -> HandOff:
    """A handoff of our own, with the reason that its cause maps to."""
    return HandOff(cause, reason_for(cause), detail)


V = TypeVar("V", AnswerWith, Call, Ask, Refuse)


def unless_doubtful(proposal: Proposal, verdict: V, ruleset: Ruleset) -> V | HandOff:
    """Hold an action back when its confidence or margin is below what is demanded of it.

    The catalog and a calibration may both demand something; the greater counts. A reply without a
    confidence passes only where nothing is demanded, or the catalog says so of a decider that never
    gives one.
    """
    thresholds = ruleset.catalog.thresholds
    action = action_of(verdict)
    # A reply without numbers from a decider that has them otherwise is a fault, not a kind.
    freed = proposal.unscored_kind and not proposal.scored and not proposal.least_confidence
    if freed and thresholds.unscored == "accept":
        return verdict
    least = max(thresholds.of(action), proposal.least_confidence)
    if isinstance(verdict, Call):
        least = max(least, ruleset.catalog.tools[verdict.tool].threshold or 0.0)
    if proposal.confidence < least:
        level = f"at {proposal.confidence:.3f}" if proposal.scored else "without a confidence"
        return handed_off("below_threshold", f"{action} {level}")
    if proposal.margin is not None and proposal.margin < thresholds.near_tie_margin:
        return handed_off("near_tie", f"{action} with margin {proposal.margin:.3f}")
    return verdict


def open_activation(conversation: Conversation) -> Activation:
    """The work that a proposal is for."""
    if conversation.activation is None:
        raise AssertionError("a proposal is judged only while an activation is open")
    return conversation.activation
