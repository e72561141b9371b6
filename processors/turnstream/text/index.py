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
from functools import lru_cache
from math import sqrt
from typing import Final

from turnstream.text import fitting
from turnstream.text.acts import ASIDE
from turnstream.text.features import (
    ASKING,
    COURTESY,
    NAMED_SHARE,
    VALUE_STRENGTH,
    FeatureExtractor,
    Features,
    negated,
    strength_of,
    value,
)
from turnstream.text.lexicon import lexicon_of
from turnstream.text.mentions import Mentions
from turnstream.text.reading import (
    NO_PAIRS,
    OptionTexts,
    Reading,
    Weights,
    Word,
    negated_in,
    phrases_in,
)
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
        self._pairs: dict[str, dict[str, tuple[Weights, float]]] = {}
        """The same for two words in a row: the first, to the second."""
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

    def read(self, text: str, *, reply: bool = False) -> Reading:
        """Split a message into known words, values and denied words.

        Args:
            text: the message.
            reply: whether it answers a question, so that it may speak of the conversation itself
                also without a value.
        """
        valued, text = self._mentions.of_pattern(text)
        look_up = self._word
        words = [look_up(piece) for piece in pieces(text)]
        mentioned = self._mentions.of_wording([word.key for word in words])
        phrases, spoken = phrases_in(words)
        aside: Collection[int] = ()
        if valued or reply:
            aside = spoken.union([at for at, word in enumerate(words) if word.aside])
            phrases = tuple([one for one in phrases if one not in ASIDE])
        content = [
            at for at, word in enumerate(words) if word.kind == "content" and at not in aside
        ]
        foreign = sum([words[at].foreign for at in content])
        return Reading(
            words=words,
            denied=denied_words([word.text for word in words], content, self._lexicon),
            fields=tuple(dict.fromkeys([*valued, *mentioned.values()])),
            mentioned=mentioned,
            valued=tuple(valued),
            phrases=phrases,
            aside=aside,
            has_content=bool(content or phrases) or any(word.asks for word in words),
            courteous=any(word.kind == "courtesy" for word in words),
            foreign_share=foreign / len(content) if foreign else 0.0,
        )

    def word(self, piece: str) -> Word:
        """What is known of a word, folded."""
        return self._word(piece)

    def negated(self, word: Word) -> list[str]:
        """The features that a word has where it is negated or said to be over."""
        return negated(word.key)

    def says(self, feature: str, option: int) -> float:
        """What a feature says for an option; 0 when it is not known."""
        found = self._weights.get(feature)
        return 0.0 if found is None else found[option]

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
            features = [*map(value, reading.fields), *reading.phrases, *negated_in(reading)]
            if not substantial:
                features.append(COURTESY)
            for feature in features:
                found = self._whole.get(feature)
                if found is not None:
                    said.append(found[0])
                    square += found[1]
        if not said or not square:
            return [0.0] * self._size
        length = min(sqrt(square), _LONGEST)
        totals = [*map(sum, zip(*said, strict=True))]
        background = totals.pop()
        return [(total - background) / length for total in totals]

    def _add_words(self, said: list[Weights], reading: Reading, skipped: Collection[int]) -> float:
        substantial = reading.says_something
        mentioned = reading.mentioned
        aside = reading.aside
        square = 0.0
        foreign = 0
        seen: set[str] = set()
        pairs = NO_PAIRS
        for at, word in enumerate(reading.words):
            kind = word.kind
            if kind == "boundary" or at in skipped or at in aside:
                pairs = NO_PAIRS
                continue
            if kind == "courtesy" and substantial:
                continue
            text = word.text
            if text not in seen:
                seen.add(text)
                foreign += word.foreign
                if at in mentioned:
                    square += word.square * NAMED_SHARE**2
                    said.append(word.named)
                elif not word.foreign or foreign <= _MOST_FOREIGN:
                    square += word.square
                    if word.weights:
                        said.append(word.weights)
            if text in pairs:
                together = pairs[text]
                said.append(together[0])
                square += together[1]
            pairs = word.pairs
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
        meant = None
        if kind == "content" and not self._known(piece):
            meant = self._speller.meant(piece)
            foreign = meant is None
            if meant is None:
                square = max(square, _FOREIGN_LENGTH * sum(one * one for one in found.values()))
            else:
                kind = extractor.kind(meant)
                key = self._stems.key(meant)
                weights, square = self._sum(extractor.of_word(meant, kind), _GUESS_WEIGHT)
        return Word(
            text=piece,
            kind=kind,
            key=key,
            weights=weights,
            named=tuple([one * NAMED_SHARE for one in weights]) or (0.0,) * (self._size + 1),
            square=square,
            foreign=foreign,
            asks=not ASKING.isdisjoint(found),
            aside=piece in self._lexicon.aside,
            concepts=frozenset(extractor.concepts(meant or piece)),
            pairs=self._pairs.get(piece, NO_PAIRS),
            phrases=phrases,
        )

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
        alike = fitting.likeness(weighed[:own], weighed[own:])
        kept = [*range(own), *(own + at for at, one in enumerate(alike) if one < _SAME)]
        self._weights = fitting.fit(
            [weighed[at] for at in kept], [labels[at] for at in kept], len(options) + 1
        )
        for feature, weights in self._weights.items():
            strength = strength_of(feature)
            if strength:
                scale = strength * self._rarity[feature]
                says = (_bounded(weights, scale), scale * scale)
                before, _, then = feature.partition(" ")
                if then:
                    self._pairs.setdefault(before, {})[then] = says
                else:
                    self._whole[feature] = says

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
