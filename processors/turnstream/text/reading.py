"""What is known of a word, and of a message once it is read."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnstream.text.acts import ASIDE
from turnstream.text.features import Kind, negated
from turnstream.text.marks import FOREIGN
from turnstream.text.sums import Row
from turnstream.text.words import BOUNDARY

Weights = tuple[float, ...]
"""One number per option, the background last; empty for a word that says nothing."""

Phrase = tuple[tuple[str, ...], str]
"""The words of a phrase, with its concept."""

NO_PAIRS: Final[Mapping[str, Row]] = {}
"""Of a word that says nothing together with any other."""
NO_PHRASES: Final[Mapping[str, Sequence[Phrase]]] = {}
"""Of a word that begins none."""

_MOST_FOREIGN: Final = 3
"""Foreign words that count: the story around a request is not evidence against the request."""

CACHED_WORDS: Final = 16_384
"""Words whose weights are kept, some 10 MB: customers may write any number of different ones."""


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
    says: Row = 0
    """Its weights beyond the background and, last, what it adds to the square of a message's
    length."""
    named: Row = 0
    """The same where it names a value."""
    marks: int = 0
    """Bits of :mod:`turnstream.text.marks`."""
    concepts: frozenset[str] = frozenset()
    """Features of the concepts that it belongs to."""
    pairs: Mapping[str, Row] = field(default_factory=lambda: NO_PAIRS)
    """Word that follows it, to what the two say together."""
    phrases: Mapping[str, Sequence[Phrase]] = field(default_factory=lambda: NO_PHRASES)
    """Word that follows it, to the phrases that begin with the two."""


class Words(dict[str, Word]):
    """The words that were met so far, looked up when they are first met."""

    def __init__(self, look_up: Callable[[str], Word]) -> None:
        """Begin with none.

        Args:
            look_up: finds out what is known of a word.
        """
        super().__init__()
        self._look_up = look_up

    def __missing__(self, piece: str) -> Word:
        if len(self) >= CACHED_WORDS:
            # To look the usual words up again now and then costs less than to keep their order.
            self.clear()
        word = self[piece] = self._look_up(piece)
        return word


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
    """It has a content word, a phrase, or a word that asks by itself."""
    asks: bool
    """It has a word that asks by itself, like *where*."""
    courteous: bool
    """It has a courtesy."""
    foreign_share: float
    """The part of its content words that no option knows, 0 to 1."""

    @property
    def says_something(self) -> bool:
        """It has content, or a value."""
        return self.has_content or bool(self.fields)

    def said(self, *, skipped: Collection[int], passed: int) -> Row:
        """What its words say, each once, and what pairs of them say.

        Args:
            skipped: positions of words to leave out.
            passed: marks of words that do not count.
        """
        mentioned = self.mentioned
        omitted = {*skipped, *self.aside} if skipped or self.aside else ()
        unusual = {*omitted, *mentioned} if omitted or mentioned else ()
        looked_at = passed | FOREIGN
        said = 0
        foreign = 0
        seen: set[str] = set()
        pairs = NO_PAIRS
        for at, word in enumerate(self.words):
            text = word.text
            says = word.says
            if at in unusual or word.marks & looked_at:
                if at in omitted:
                    pairs = NO_PAIRS
                    continue
                if word.marks & passed:
                    continue
                if word.marks & FOREIGN and text not in seen:
                    foreign += 1
                if at in mentioned:
                    says = word.named
                elif word.marks & FOREIGN and foreign > _MOST_FOREIGN:
                    says = 0
            if text in pairs:
                said += pairs[text]
            pairs = word.pairs
            if text not in seen:
                seen.add(text)
                said += says
        return said


def negated_in(reading: Reading) -> list[str]:
    """The features of the negated words of a message."""
    return [one for at in reading.denied for one in negated(reading.words[at].key)]


def phrases_in(words: Sequence[Word], places: Sequence[int]) -> tuple[tuple[str, ...], set[int]]:
    """The concepts of the phrases, and the positions of those that may speak of another value.

    Args:
        words: the words of a message.
        places: positions where a phrase may begin, ascending.
    """
    found: list[str] = []
    spoken: set[int] = set()
    for at in places:
        second = words[at + 1].text if at + 1 < len(words) else BOUNDARY
        for phrase, concept in words[at].phrases.get(second, ()):
            following = words[at : at + len(phrase)]
            if tuple([one.text for one in following]) == phrase:
                if concept not in found:
                    found.append(concept)
                if concept in ASIDE:
                    spoken.update(range(at, at + len(phrase)))
    return tuple(found), spoken


def by_second(phrases: Sequence[Phrase]) -> Mapping[str, Sequence[Phrase]]:
    """The phrases that begin with one word by the word that follows."""
    found: dict[str, list[Phrase]] = {}
    for phrase in phrases:
        found.setdefault(phrase[0][1], []).append(phrase)
    return found or NO_PHRASES
