"""How well a message fits each of several options, learnt from the options' examples.

Each example of an option is a row of features (:mod:`turnstream.text.features`); what a feature
says for an option is fitted once (:mod:`turnstream.text.fitting`). A message is then scored by
adding up what its words say, over the length of the message. Four things refine the plain sum:

- No word may decide alone: what one word says is bounded.
- A courtesy counts only where nothing else is said: *Hello, where is my parcel?* is no greeting.
- Scores are relative to the background, examples that belong to none of the options.
- Words that no option knows make a message longer, so that the others explain less of it; the
  story around a request does that only up to a point.

Words that are negated or said to be over are marked, so that a caller can score without them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Final

import numpy as np

from turnstream.text import fitting
from turnstream.text.features import (
    ASKING,
    COURTESY,
    NAMED_SHARE,
    VALUE_STRENGTH,
    FeatureExtractor,
    Features,
    Kind,
    negated,
    pair,
    strength_of,
    value,
)
from turnstream.text.lexicon import lexicon_of
from turnstream.text.mentions import Mentions
from turnstream.text.scope import denied_words
from turnstream.text.vocabulary import Speller, Stems
from turnstream.text.words import BOUNDARY, pieces

_GUESS_WEIGHT: Final = 0.8
"""What a word that was corrected or completed says, compared with one that was written out."""

_FOREIGN_LENGTH: Final = 0.5
"""What a word that no option knows adds to the length of a message, compared with a known one."""

_MOST_FOREIGN: Final = 3
"""Foreign words that count: the story around a request is not evidence against the request."""

_LONGEST: Final = 2.6
"""Length beyond which a message is not diluted any more: a long one repeats itself."""

_WORD_CEILING: Final = 3.5
"""Most that one word may say for or against an option, so that no single one decides."""

_VALUED: Final = 2
_STRAY: Final = 8
"""One in so many requests is taken to come with the values that its option takes, and with one that
it has no use for."""

_SAME: Final = 0.55
"""Likeness from which a background example is one of an option's own requests."""

_CACHED_WORDS: Final = 16_384
"""Words whose weights are kept, some 10 MB: customers may write any number of different ones."""

Weights = tuple[float, ...]
"""One number per option, the background last; empty for a word that says nothing."""


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
    phrases: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Phrases that begin with it, with their concepts."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A message, read once."""

    words: tuple[Word, ...]
    denied: tuple[int, ...]
    """Positions of content words that are negated or said to be over."""
    fields: tuple[str, ...]
    """Fields that it gives a value for."""
    mentioned: Mapping[int, str]
    """Position of a word that names a value, to the field."""
    phrases: tuple[str, ...]
    """Concepts of the phrases in it."""
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


class TextIndex:
    """Scores messages against a fixed list of options."""

    def __init__(
        self,
        options: Sequence[OptionTexts],
        *,
        languages: Sequence[str],
        patterns: Mapping[str, str] | None = None,
        wordings: Mapping[str, Sequence[str]] | None = None,
        background: Sequence[str] = (),
    ) -> None:
        """Build the index.

        Args:
            options: the texts of each option.
            languages: primary language tags of the texts and of the messages.
            patterns: field to the regular expression of its values.
            wordings: field to the words that name its values.
            background: requests that fit no option; those that do fit one are left out.
        """
        self._size = len(options)
        self._lexicon = lexicon_of(tuple(languages))
        self._stems = Stems(languages)
        self._mentions = Mentions(patterns or {}, wordings or {}, self._stems.key)
        self._extractor = FeatureExtractor(
            languages=languages, lexicon=self._lexicon, stems=self._stems, mentions=self._mentions
        )
        self._rarity: dict[str, float] = {}
        self._weights: dict[str, Weights] = {}
        self._whole: dict[str, tuple[Weights, float]] = {}
        """Features that are not of one word, with what they say and add to the square length."""
        self._learn(options, background)
        self._speller = Speller(
            [
                piece
                for text in _texts(options, wordings or {}, background)
                for piece in pieces(text)
                if self._extractor.kind(piece) == "content"
            ],
            self._lexicon.function,
        )
        self._word = lru_cache(maxsize=_CACHED_WORDS)(self._look_up)

    def read(self, text: str) -> Reading:
        """Split a message into known words, values and denied words."""
        fields, text = self._mentions.of_pattern(text)
        words = tuple([self._word(piece) for piece in pieces(text)])
        mentioned = self._mentions.of_wording([word.key for word in words])
        fields.extend(mentioned.values())
        content = [at for at, word in enumerate(words) if word.kind == "content"]
        phrases = _phrases_in(words)
        foreign = sum([words[at].foreign for at in content])
        return Reading(
            words=words,
            denied=denied_words([word.text for word in words], content, self._lexicon),
            fields=tuple(dict.fromkeys(fields)),
            mentioned=mentioned,
            phrases=phrases,
            has_content=bool(content or phrases) or any(word.asks for word in words),
            courteous="courtesy" in [word.kind for word in words],
            foreign_share=foreign / len(content) if foreign else 0.0,
        )

    def beside_words(self, reading: Reading) -> list[Weights]:
        """What the phrases and the negated words of a message say."""
        features = [*reading.phrases, *self._negated(reading)]
        return [self._weights[one] for one in features if one in self._weights]

    def _negated(self, reading: Reading) -> list[str]:
        return [one for at in reading.denied for one in negated(reading.words[at].key)]

    def score(
        self, reading: Reading, *, skipped: Collection[int] = (), words_only: bool = False
    ) -> list[float]:
        """What a message says for each option, compared with the background.

        Args:
            reading: what :meth:`read` gave.
            skipped: positions of words to leave out.
            words_only: leave out phrases and values as well.

        Returns:
            One number per option, in their order; 0 is as likely as the background, and a message
            that says nothing scores 0 throughout.
        """
        substantial = reading.says_something
        if not self._size or not (reading.has_content or (reading.courteous and not substantial)):
            return [0.0] * self._size
        said: list[Weights] = []
        square = self._add_words(said, reading, skipped)
        if not words_only:
            for name in reading.fields:
                square += self._add_feature(said, value(name))
            for concept in reading.phrases:
                square += self._add_feature(said, concept)
            for feature in self._negated(reading):
                square += self._add_feature(said, feature)
        if not substantial:
            square += self._add_feature(said, COURTESY)
        if not said:
            return [0.0] * self._size
        length = min(sqrt(square), _LONGEST)
        totals = [sum(column) for column in zip(*said, strict=True)]
        background = totals.pop()
        return [(total - background) / length for total in totals]

    def _add_feature(self, said: list[Weights], feature: str) -> float:
        found = self._whole.get(feature)
        if found is None:
            return 0.0
        said.append(found[0])
        return found[1]

    def _add_words(self, said: list[Weights], reading: Reading, skipped: Collection[int]) -> float:
        substantial = reading.says_something
        square = 0.0
        foreign = 0
        seen: set[str] = set()
        previous = ""
        for at, word in enumerate(reading.words):
            kind = word.kind
            if kind == "boundary" or at in skipped:
                previous = ""
                continue
            if kind == "courtesy" and substantial:
                continue
            text = word.text
            if text not in seen:
                seen.add(text)
                foreign += word.foreign
                if at in reading.mentioned:
                    square += word.square * NAMED_SHARE**2
                    said.append(word.named)
                elif not word.foreign or foreign <= _MOST_FOREIGN:
                    square += word.square
                    if word.weights:
                        said.append(word.weights)
            if previous:
                square += self._add_feature(said, pair(previous, text))
            previous = text
        return square

    def _look_up(self, piece: str) -> Word:
        extractor = self._extractor
        kind = extractor.kind(piece)
        phrases = tuple(extractor.phrases(piece))
        if kind == "boundary":
            return Word(piece, kind, "")
        piece = self._lexicon.short.get(piece, piece)
        kind = extractor.kind(piece)
        key = self._stems.key(piece)
        found = extractor.of_word(piece, kind)
        weights, square = self._sum(found, 1.0)
        foreign = False
        if kind == "content" and not self._known(piece):
            meant = self._speller.meant(piece)
            foreign = meant is None
            if meant is None:
                square = max(square, _FOREIGN_LENGTH * sum(one * one for one in found.values()))
            else:
                kind = extractor.kind(meant)
                key = self._stems.key(meant)
                weights, square = self._sum(extractor.of_word(meant, kind), _GUESS_WEIGHT)
        asks = not ASKING.isdisjoint(found)
        named = tuple([one * NAMED_SHARE for one in weights]) or (0.0,) * (self._size + 1)
        return Word(piece, kind, key, weights, named, square, foreign, asks, phrases)

    def _known(self, piece: str) -> bool:
        features = (*self._stems.of(piece), *self._extractor.concepts(piece))
        return any(feature in self._weights for feature in features)

    def _sum(self, features: Features, share: float) -> tuple[Weights, float]:
        total = [0.0] * (self._size + 1)
        square = 0.0
        for feature, strength in features.items():
            weights = self._weights.get(feature)
            if weights is None:
                continue
            scale = strength * self._rarity[feature] * share
            square += scale * scale
            for at, one in enumerate(weights):
                total[at] += one * scale
        return (_bounded(total, 1.0) if square else ()), square

    def _learn(self, options: Sequence[OptionTexts], background: Sequence[str]) -> None:
        rows: list[Features] = []
        labels: list[int] = []
        fields = list(dict.fromkeys([name for option in options for name in option.fields]))
        for at, option in enumerate(options):
            described = self._extractor.of_text(self._affirmed(option.description))
            named = dict.fromkeys([value(one) for one in option.fields], VALUE_STRENGTH)
            strays = [{value(one): VALUE_STRENGTH} for one in fields if one not in option.fields]
            requests = [self._extractor.of_text(text) for text in option.examples]
            # Any request may come with the values that its option takes, and now and then with one
            # that it has no use for.
            for number in range(0, len(requests), _VALUED):
                requests[number] |= named
            for first, stray in enumerate(strays):
                for number in range(first, len(requests), _STRAY):
                    requests[number] |= stray
            for row in (described | named, *requests):
                if row:
                    rows.append(row)
                    labels.append(at)
        if not rows:
            return
        own = len(rows)
        rows.extend(row for text in background if (row := self._extractor.of_text(text)))
        labels.extend([len(options)] * (len(rows) - own))
        self._rarity = fitting.rarities(rows)
        weighed = [
            {feature: strength * self._rarity[feature] for feature, strength in row.items()}
            for row in rows
        ]
        kernel = fitting.likeness(weighed)
        kept = [
            at
            for at in range(len(rows))
            if at < own or float(kernel[at, :own].max(initial=0.0)) < _SAME
        ]
        parts = fitting.fit(
            kernel[np.ix_(kept, kept)], [labels[at] for at in kept], len(options) + 1
        )
        self._weights = fitting.weights(parts, [weighed[at] for at in kept])
        for feature, weights in self._weights.items():
            strength = strength_of(feature)
            if strength:
                scale = strength * self._rarity[feature]
                self._whole[feature] = (_bounded(weights, scale), scale * scale)

    def _affirmed(self, description: str) -> str:
        """A description without what it excludes: *one that has not been sent*."""
        kept: list[str] = []
        excluded = False
        for piece in pieces(description):
            if piece == BOUNDARY or piece in self._lexicon.clause:
                excluded = False
            elif piece in self._lexicon.negation:
                excluded = True
            if not excluded:
                kept.append(piece)
        return " ".join(kept)


def _bounded(weights: Sequence[float], scale: float) -> Weights:
    return tuple([min(max(one * scale, -_WORD_CEILING), _WORD_CEILING) for one in weights])


def _phrases_in(words: Sequence[Word]) -> tuple[str, ...]:
    found: list[str] = []
    for at, word in enumerate(words):
        for phrase, concept in word.phrases:
            following = words[at : at + len(phrase)]
            if tuple([one.text for one in following]) == phrase and concept not in found:
                found.append(concept)
    return tuple(found)


def _texts(
    options: Sequence[OptionTexts],
    wordings: Mapping[str, Sequence[str]],
    background: Sequence[str],
) -> list[str]:
    return [
        *(text for option in options for text in (option.description, *option.examples)),
        *(text for named in wordings.values() for text in named),
        *background,
    ]
