"""What a customer may want, and how probable each of it is for one message."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

IntentKind = Literal["tool", "answer", "rule", "person", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class Intent:
    """One thing that a customer may want. There is one object of each: compared by identity."""

    kind: IntentKind
    name: str
    writes: bool = False
    fields: tuple[str, ...] = ()
    """Fields that a tool's arguments come from."""


NOTHING: Final = Intent("none", "")
PERSON: Final = Intent("person", "")


@dataclass(slots=True)
class Ranking:
    """The intents of one message with their weights. Not frozen: made for every message."""

    intents: tuple[Intent, ...]
    weights: Sequence[float]
    """In the order of `intents`: how probable each is, compared with the others."""
    total: float
    """The sum of the weights."""
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
        return self.weights[self.best] / self.total

    @property
    def margin(self) -> float:
        """Distance to the best intent that would lead to another step."""
        return self.weights[self.best] / self.total - self.weights[self.second] / self.total

    def of(self, intent: Intent) -> float:
        """The probability of an intent; 0 for one that was not offered."""
        return self.weights[self.intents.index(intent)] / self.total
