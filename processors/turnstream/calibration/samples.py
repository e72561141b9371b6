"""What a decider proposed at one turn, beside what was really done there."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnstream.core.contract import Action, HandoffCause


@dataclass(frozen=True, slots=True)
class Sample:
    """One labelled turn.

    `action`, `tool` and `missing_field` are what would be done if nothing were held back for its
    confidence: everything else that code checks has been checked.
    """

    conversation_id: str
    turn_id: str
    right: Action
    """What was done."""
    right_tool: str | None
    """Of a call, where the label names it."""
    action: Action
    tool: str | None
    missing_field: str | None
    agrees: bool
    """The same action, and the same tool or field where the label names one."""
    judged: bool
    """Whether confidence and margin decide if it is done; never of a handoff."""
    confidence: float
    """As the decider gave it; 0 to 1 where `judged`."""
    confidence_kind: str
    probabilities: Mapping[Action, float]
    """As the decider gave them; empty where it gives none."""
    margin: float | None = None
    """Distance between the two best options, 0 to 1."""
    rivals: tuple[str, str] | None = None
    """The two best options, where both are tools."""
    apart: float | None = None
    """Distance between these two, 0 to 1; None where the decider does not tell."""
    cause: HandoffCause | None = None
    """Of a handoff."""


def distribution(sample: Sample) -> Mapping[Action, float] | None:
    """The probabilities that are above zero; None where what was given is no distribution."""
    given = sample.probabilities
    if not all(math.isfinite(one) and one >= 0 for one in given.values()):
        return None
    positive = {action: one for action, one in given.items() if one > 0}
    return positive or None


def conversations(samples: Sequence[Sample]) -> int:
    """How many conversations they are from."""
    return len({sample.conversation_id for sample in samples})
