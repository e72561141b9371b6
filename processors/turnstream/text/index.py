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
from turnstream.text.marks import (
    ASKS,
    BEGINS,
    CONTENT,
    COURTEOUS,
    DENIES,
    DIGRESSES,
    FOREIGN,
    PAST,
    SUBJECT,
)
from turnstream.text.mentions import Mentions
from turnstream.text.reading import (
    NO_PAIRS,
    OptionTexts,
    Reading,
    Weights,
    Word,
    Words,
    by_second,
    negated_in,
    phrases_in,
)
from turnstream.text.scope import PAST_ENDING, SUBJECTS, denied_words
from turnstream.text.sums import UNIT, Columns, Row
from turnstream.text.vocabulary import Speller, Stems
from turnstream.text.words import BOUNDARY, ENDS, pieces, written

_GUESS_WEIGHT: Final = 0.8
"""What a word that was corrected or completed says, compared with one that was written out."""

_FOREIGN_LENGTH: Final = 0.5
"""What a word that no option knows adds to the length of a message, compared with a known one."""

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
        self._columns = Columns(self._size + 1)
        """One per option and one for the square of the length."""
        self._lexicon = lexicon_of(tuple(languages))
        self._stems = Stems(languages)
        self._mentions = Mentions(patterns or {}, wordings or {}, self._stems.key)
        self._extractor = FeatureExtractor(
            languages=languages, lexicon=self._lexicon, stems=self._stems, mentions=self._mentions
        )
        self._rarity: dict[str, float] = {}
        self._weights: dict[str, Weights] = {}
        self._whole: dict[str, Row] = {}
        """Features that are not of one word, with what they say."""
        self._pairs: dict[str, dict[str, Row]] = {}
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
        self._words = Words(self._look_up)

    def read(self, text: str, *, reply: bool = False) -> Reading:
        """Split a message into known words, values and denied words.

        Args:
            text: the message.
            reply: whether it answers a question, so that it may speak of the conversation itself
                also without a value.
        """
        valued, text = self._mentions.of_pattern(text)
        words = [*map(self._words.__getitem__, written(text))]
        marks = 0
        content: list[int] = []
        begun: list[int] = []
        for at, word in enumerate(words):
            mark = word.marks
            if mark:
                marks |= mark
                if mark & CONTENT:
                    content.append(at)
                if mark & BEGINS:
                    begun.append(at)
        mentioned: Mapping[int, str] = {}
        phrases: tuple[str, ...] = ()
        spoken: set[int] = set()
        if begun:
            mentioned = self._mentions.of_wording([word.key for word in words], begun)
            phrases, spoken = phrases_in(words, begun)
        aside: Collection[int] = ()
        if valued or reply:
            if marks & DIGRESSES:
                spoken.update([at for at, word in enumerate(words) if word.marks & DIGRESSES])
            aside = spoken
            content = [at for at in content if at not in aside]
            phrases = tuple([one for one in phrases if one not in ASIDE])
        denied: tuple[int, ...] = ()
        if content and (marks & DENIES or (marks & SUBJECT and marks & PAST)):
            denied = denied_words([word.text for word in words], content, self._lexicon)
        foreign = 0
        if marks & FOREIGN:
            foreign = sum([words[at].marks & FOREIGN for at in content]) // FOREIGN
        asks = marks & ASKS != 0
        return Reading(
            words=words,
            denied=denied,
            fields=tuple(dict.fromkeys([*valued, *mentioned.values()]))
            if valued or mentioned
            else (),
            mentioned=mentioned,
            valued=tuple(valued),
            phrases=phrases,
            aside=aside,
            has_content=asks or bool(content or phrases),
            asks=asks,
            courteous=marks & COURTEOUS != 0,
            foreign_share=foreign / len(content) if foreign else 0.0,
        )

    def word(self, piece: str) -> Word:
        """What is known of a word, folded."""
        return self._words[piece]

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
        said = reading.said(skipped=skipped, passed=COURTEOUS if substantial else 0)
        if not words_only:
            features = [*map(value, reading.fields), *reading.phrases]
            if reading.denied:
                features += negated_in(reading)
            if not substantial:
                features.append(COURTESY)
            for feature in features:
                said += self._whole.get(feature, 0)
        *totals, square = self._columns.unpacked(said)
        if not square:
            return [0.0] * self._size
        length = UNIT * min(sqrt(square / UNIT), _LONGEST)
        return [total / length for total in totals]

    def _look_up(self, piece: str) -> Word:
        if piece in ENDS:
            return Word(BOUNDARY, "boundary", "")
        extractor = self._extractor
        text = self._lexicon.short.get(piece, piece)
        kind = extractor.kind(text)
        key = self._stems.key(text)
        found = extractor.of_word(text, kind)
        weights, square = self._sum(found, 1.0)
        marks = 0
        meant = None
        if kind == "content" and not self._known(text):
            meant = self._speller.meant(text)
            if meant is None:
                marks |= FOREIGN
                square = max(square, _FOREIGN_LENGTH * sum(one * one for one in found.values()))
            else:
                kind = extractor.kind(meant)
                key = self._stems.key(meant)
                weights, square = self._sum(extractor.of_word(meant, kind), _GUESS_WEIGHT)
        # A phrase is written out: an abbreviation begins none.
        phrases = extractor.phrases(piece) if text == piece else ()
        for mark, bears in (
            (CONTENT, kind == "content"),
            (COURTEOUS, kind == "courtesy"),
            (ASKS, not ASKING.isdisjoint(found)),
            (DIGRESSES, text in self._lexicon.aside),
            (DENIES, text in self._lexicon.denying),
            (SUBJECT, text in SUBJECTS),
            (PAST, text.endswith(PAST_ENDING)),
            (BEGINS, phrases or self._mentions.begins(key)),
        ):
            if bears:
                marks |= mark
        return Word(
            text=text,
            kind=kind,
            key=key,
            weights=weights,
            says=self._row(weights, square),
            named=self._row([one * NAMED_SHARE for one in weights], square * NAMED_SHARE**2)
            if self._mentions.uses(key)
            else 0,
            marks=marks,
            concepts=frozenset(extractor.concepts(meant or text)),
            pairs=self._pairs.get(text, NO_PAIRS),
            phrases=by_second(phrases),
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
            total = [before + one * scale for before, one in zip(total, weights, strict=True)]
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
                says = self._row(_bounded(weights, scale), scale * scale)
                before, _, then = feature.partition(" ")
                if then:
                    self._pairs.setdefault(before, {})[then] = says
                else:
                    self._whole[feature] = says

    def _row(self, weights: Sequence[float], square: float) -> Row:
        if not weights:
            return self._columns.packed([0.0] * self._size + [square])
        *others, background = weights
        return self._columns.packed([*[one - background for one in others], square])

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
    scaled = [one * scale for one in weights]
    if max(scaled) > _WORD_CEILING or min(scaled) < -_WORD_CEILING:
        scaled = [min(max(one, -_WORD_CEILING), _WORD_CEILING) for one in scaled]
    return tuple(scaled)


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
