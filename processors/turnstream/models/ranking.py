"""What a customer may want, and how probable each of it is for one message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from turnstream.core.contract import Action
from turnstream.core.ports import ToolOption

IntentKind = Literal["tool", "answer", "rule", "person", "none"]


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that a customer may want."""

    kind: IntentKind
    name: str
    writes: bool = False
    fields: tuple[str, ...] = ()
    """Fields that a tool's arguments come from."""


NOTHING: Final = Intent("none", "")
PERSON: Final = Intent("person", "")


@dataclass(slots=True)
class Ranking:
    """The intents of one message with their probabilities. Not frozen: made for every message."""

    intents: tuple[Intent, ...]
    probabilities: Sequence[float]
    """In the order of `intents`; they sum to 1."""
    best: int
    second: int
    """Position of the best intent that conflicts with `best`."""
    fields: tuple[str, ...]
    """Fields that the message gives a value for."""
    valued: tuple[str, ...]
    """Those of them whose value has the form of an identifier."""
    content: bool
    """Whether the message has content words, beside such values."""
    taken_back: bool
    """True when the message negates a write, or says that it is over."""
    doubtful: bool
    """True when the best intent rests on words that the customer negated or said to be over."""
    outright: bool
    """True when the best intent is a write that the message names by its own word."""
    unnamed: bool
    """True when a write resembles the message most, and nothing in the message names it."""

    @property
    def intent(self) -> Intent:
        """The best intent."""
        return self.intents[self.best]

    @property
    def confidence(self) -> float:
        """The probability of the best intent."""
        return self.probabilities[self.best]

    @property
    def margin(self) -> float:
        """Distance to the best intent that would lead to another step."""
        return self.probabilities[self.best] - self.probabilities[self.second]

    def of(self, intent: Intent) -> float:
        """The probability of an intent; 0 for one that was not offered."""
        for one, probability in zip(self.intents, self.probabilities, strict=True):
            if one == intent:
                return probability
        return 0.0


def by_action(ranking: Ranking, tools: Sequence[ToolOption]) -> dict[Action, float]:
    """The probability of each action: of all the intents that it would serve."""
    answered = refused = asked = called = 0.0
    steps = {option.name: option for option in tools}
    for intent, probability in zip(ranking.intents, ranking.probabilities, strict=True):
        kind = intent.kind
        if kind == "answer":
            answered += probability
        elif kind == "rule":
            refused += probability
        elif kind == "tool" and probability:
            option = steps[intent.name]
            if not option.blocked:
                if option.missing or option.ambiguous:
                    asked += probability
                else:
                    called += probability
    return {
        "answer": answered,
        "call_tool": called,
        "ask": asked,
        "refuse": refused,
        "handoff": max(0.0, 1.0 - answered - called - asked - refused),
    }
