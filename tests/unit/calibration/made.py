"""Samples of made-up deciders."""

import math
import random
from collections.abc import Mapping
from typing import Any

from turnstream.calibration import Sample
from turnstream.core.contract import ACTIONS, Action


def sample(**changes: Any) -> Sample:
    """An answer that was right, at 0.9; a `right` that differs does not agree."""
    given: dict[str, Any] = {
        "conversation_id": "c-1",
        "turn_id": "t-1",
        "right": "answer",
        "right_tool": None,
        "action": "answer",
        "tool": None,
        "missing_field": None,
        "judged": True,
        "confidence": 0.9,
        "confidence_kind": "made up",
        "probabilities": {},
        **changes,
    }
    return Sample(agrees=given.pop("agrees", given["action"] == given["right"]), **given)


def answers(*confidences: tuple[float, bool], **changes: Any) -> list[Sample]:
    """Answers with a confidence each, right or not."""
    return [
        sample(
            conversation_id=f"c-{place}",
            confidence=confidence,
            right="answer" if right else "ask",
            **changes,
        )
        for place, (confidence, right) in enumerate(confidences)
    ]


def over_confident(count: int, *, temperature: float, seed: int = 7, of: str = "c") -> list[Sample]:
    """A decider with too large logits: what is right is drawn at a temperature."""
    dice = random.Random(seed)
    samples = []
    for number in range(count):
        logits = {action: dice.gauss(0, 3) for action in ACTIONS}
        stated = softmax(logits)
        true = softmax({action: one / temperature for action, one in logits.items()})
        right: Action = dice.choices(ACTIONS, [true[one] for one in ACTIONS])[0]
        action = max(stated, key=stated.__getitem__)
        samples.append(
            sample(
                conversation_id=f"{of}-{number}",
                right=right,
                action=action,
                judged=action != "handoff",
                confidence=stated[action],
                probabilities=stated,
            )
        )
    return samples


def softmax(logits: Mapping[Action, float]) -> dict[Action, float]:
    """Probabilities of logits."""
    powers = {action: math.exp(one) for action, one in logits.items()}
    return {action: power / sum(powers.values()) for action, power in powers.items()}
