"""What is known of a word, and of a message once it is read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnstream.text.acts import ASIDE
from turnstream.text.features import Kind, negated

Weights = tuple[float, ...]
"""One number per option, the background last; empty for a word that says nothing."""

NO_PAIRS: Final[Mapping[str, tuple[Weights, float]]] = {}
"""Of a word that says nothing together with any other."""


@dataclass(frozen=True, slots=True)
class OptionTexts:
    """What an option is described by."""

    description: str = ""
    examples: Sequence[str] = ()
    fields: Sequence[str] = ()
    """Fields whose values such a request mentions."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the index knows it."""

    text: str
    """As written, folded."""
    kind: Kind
    key: str
    weights: Weights = ()
    named: Weights = ()
    """Its weights where it names a value."""
    square: float = 0.0
    """What it adds to the square of a message's length."""
    foreign: bool = False
    """A content word that no option knows."""
    asks: bool = False
    """It asks by itself, like *where*."""
    aside: bool = False
    """It may speak of the conversation itself, like *mistyped*."""
    concepts: frozenset[str] = frozenset()
    """Features of the concepts that it belongs to."""
    pairs: Mapping[str, tuple[Weights, float]] = field(default_factory=dict)
    """Word that follows it, to what the two say together and add to the square length."""
    phrases: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Phrases that begin with it, with their concepts."""


@dataclass(slots=True)
class Reading:
    """A message, read once. Not frozen: made for every message, it must cost little."""

    words: Sequence[Word]
    denied: tuple[int, ...]
    """Positions of content words that are negated or said to be over."""
    fields: tuple[str, ...]
    """Fields that it gives a value for."""
    mentioned: Mapping[int, str]
    """Position of a word that names a value, to the field."""
    valued: tuple[str, ...]
    """Those whose value has the form of an identifier, and is not just a word."""
    phrases: tuple[str, ...]
    """Concepts of the phrases in it."""
    aside: Collection[int]
    """Positions of words that speak of the conversation itself, next to such a value. They do not
    count: *sorry, wrong one, I meant A-1002* says no more than *A-1002*."""
    has_content: bool
    """It has a content word, a phrase, or a word like *where*."""
    courteous: bool
    """It has a courtesy."""
    foreign_share: float
    """The part of its content words that no option knows, 0 to 1."""

    @property
    def says_something(self) -> bool:
        """It has content, or a value."""
        return self.has_content or bool(self.fields)


def negated_in(reading: Reading) -> list[str]:
    """The features of the negated words of a message."""
    return [one for at in reading.denied for one in negated(reading.words[at].key)]


def phrases_in(words: Sequence[Word]) -> tuple[tuple[str, ...], set[int]]:
    """The concepts of the phrases, and the positions of those that may speak of another value."""
    found: list[str] = []
    spoken: set[int] = set()
    for at, word in enumerate(words):
        for phrase, concept in word.phrases:
            following = words[at : at + len(phrase)]
            if tuple([one.text for one in following]) == phrase:
                if concept not in found:
                    found.append(concept)
                if concept in ASIDE:
                    spoken.update(range(at, at + len(phrase)))
    return tuple(found), spoken
