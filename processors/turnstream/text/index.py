"""How well a message fits each of several options: BM25 weights, summed per word.

Each option is one document: its description and its examples. bm25s computes the weight of every
feature for every option once; a message is then scored by adding up the weights of its words, which
takes some fifteen microseconds. Four things refine the plain sum:

- Function words and word pairs weigh less than content words, and function words alone say nothing:
  a message without any content word scores only if it is a courtesy.
- A courtesy counts only where nothing else is said: *Hello, where is my parcel?* is no greeting.
- A value of a field counts as that field (:mod:`turnstream.text.mentions`).
- A content word that no option knows is evidence for none of them (:attr:`Scores.foreign`).

Words that are negated or said to be over are marked, so that a caller can score without them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import bm25s

from turnstream.text.lexicon import lexicon_of
from turnstream.text.mentions import Mentions
from turnstream.text.scope import denied_words
from turnstream.text.vocabulary import Speller, Stems, beginning
from turnstream.text.words import BOUNDARY, pieces

Kind = Literal["content", "function", "courtesy", "number", "boundary"]

_COURTESY: Final = "!"
"""Feature of a text that consists of courtesies."""

_BEGINNING_WEIGHT: Final = 0.6
_PAIR_WEIGHT: Final = 0.3
_FUNCTION_WEIGHT: Final = 0.25
_GUESS_WEIGHT: Final = 0.8
"""Weight of a word that was corrected or completed, compared with one that was written out."""

_EXAMPLE: Final = 2
"""What an example counts for, compared with a description: that one is written for readers of the
catalog and names what the option is *not* about as well."""

_VALUE_WEIGHT: Final = 0.7
"""A value tells less than the words around it: every request about a kettle names the kettle."""

_K1: Final = 1.2
_B: Final = 0.3
"""BM25's length normalisation, lower than for search: an option with many examples is not a diluted
text."""

_CACHED_WORDS: Final = 16_384
"""Words whose weights are kept, some 10 MB: customers may write any number of different ones."""

Weights = tuple[tuple[int, float], ...]
"""(option, weight) pairs."""


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
    weights: Weights
    foreign: bool
    """A content word that no option knows."""


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
    has_content: bool
    """It has a content word."""
    courteous: bool
    """It has a courtesy."""

    @property
    def says_something(self) -> bool:
        """It has a content word, or a value."""
        return self.has_content or bool(self.fields)


@dataclass(frozen=True, slots=True)
class Scores:
    """The fit of a message to each option, in the order of the options."""

    values: list[float]
    """BM25 sums, 0 for nothing in common."""
    foreign: int
    """Different content words that no option knows."""


class TextIndex:
    """Scores messages against a fixed list of options."""

    def __init__(
        self,
        options: Sequence[OptionTexts],
        *,
        languages: Sequence[str],
        patterns: Mapping[str, str] | None = None,
        wordings: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Build the index.

        Args:
            options: the texts of each option.
            languages: primary language tags of the texts and of the messages.
            patterns: field to the regular expression of its values.
            wordings: field to the words that name its values.
        """
        self._size = len(options)
        self._lexicon = lexicon_of(tuple(languages))
        self._stems = Stems(languages)
        self._mentions = Mentions(patterns or {}, wordings or {}, self._stems.key)
        self._weights = self._weigh(options)
        self._takers = {
            feature[1:]: frozenset(option for option, _ in weights)
            for feature, weights in self._weights.items()
            if feature.startswith("#")
        }
        """Field to the options that score for its values; for them the words of a value do not
        count a second time."""
        self._speller = Speller(
            [
                word
                for word in self._content_words(options, wordings or {})
                if word != BOUNDARY and self._kind(word) == "content"
            ],
            self._lexicon.function,
        )
        self._word = lru_cache(maxsize=_CACHED_WORDS)(self._look_up)

    def read(self, text: str) -> Reading:
        """Split a message into known words, values and denied words."""
        fields, text = self._mentions.of_pattern(text)
        words = [self._word(piece) for piece in pieces(text)]
        mentioned = self._mentions.of_wording([word.key for word in words])
        fields.extend(mentioned.values())
        content = [at for at, word in enumerate(words) if word.kind == "content"]
        return Reading(
            words=tuple(words),
            denied=denied_words([word.text for word in words], content, self._lexicon),
            fields=tuple(dict.fromkeys(fields)),
            mentioned=mentioned,
            has_content=bool(content),
            courteous="courtesy" in [word.kind for word in words],
        )

    def score(self, reading: Reading, *, without_denied: bool = False) -> Scores:
        """Add up the weights of a message.

        Args:
            reading: what :meth:`read` gave.
            without_denied: leave out the words that are negated or said to be over.
        """
        values = [0.0] * self._size
        substantial = reading.says_something
        if not substantial and not reading.courteous:
            return Scores(values, 0)
        foreign = self._add_words(values, reading, reading.denied if without_denied else ())
        weights = self._weights
        for name in reading.fields:
            for option, weight in weights.get(f"#{name}", ()):
                values[option] += weight
        if not substantial:
            for option, weight in weights.get(_COURTESY, ()):
                values[option] += weight
        return Scores(values, foreign)

    def _add_words(self, values: list[float], reading: Reading, skipped: tuple[int, ...]) -> int:
        weights = self._weights
        substantial = reading.says_something
        mentioned = reading.mentioned
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
                counted = self._takers.get(mentioned[at], ()) if at in mentioned else ()
                for option, weight in word.weights:
                    if option not in counted:
                        values[option] += weight
            if previous:
                for option, weight in weights.get(f"{previous} {text}", ()):
                    values[option] += weight
            previous = text
        return foreign

    def _look_up(self, piece: str) -> Word:
        if piece == BOUNDARY:
            return Word(piece, "boundary", "", (), foreign=False)
        kind = self._kind(piece)
        if kind != "content":
            key = self._stems.key(piece) if kind != "number" else piece
            return Word(piece, kind, key, self._sum(self._features(piece, kind)), foreign=False)
        if not any(stem in self._weights for stem in self._stems.of(piece)):
            meant = self._speller.meant(piece)
            if meant is not None:
                kind = self._kind(meant)
                found = self._sum(self._features(meant, kind))
                guessed = tuple([(at, weight * _GUESS_WEIGHT) for at, weight in found])
                return Word(piece, kind, self._stems.key(meant), guessed, foreign=False)
        weights = self._sum(self._features(piece, kind))
        return Word(piece, kind, self._stems.key(piece), weights, foreign=not weights)

    def _kind(self, piece: str) -> Kind:
        if piece in self._lexicon.courtesy:
            return "courtesy"
        if piece in self._lexicon.function or (len(piece) == 1 and piece.isascii()):
            return "function"
        return "content" if not any(char.isdigit() for char in piece) else "number"

    def _features(self, piece: str, kind: Kind) -> list[str]:
        match kind:
            case "content" | "courtesy":
                first = beginning(piece) if kind == "content" else None
                return [*self._stems.of(piece), *((first,) if first is not None else ())]
            case "function":
                return [f"={piece}"]
            case "number" | "boundary":
                return []

    def _sum(self, features: Sequence[str]) -> Weights:
        total: dict[int, float] = {}
        for feature in features:
            for option, weight in self._weights.get(feature, ()):
                total[option] = total.get(option, 0.0) + weight
        return tuple(total.items())

    def _document(self, option: OptionTexts) -> list[str]:
        found: list[str] = [f"#{name}" for name in option.fields]
        found.extend(self._text_features(self._affirmed(option.description)))
        for text in option.examples:
            found.extend(self._text_features(text) * _EXAMPLE)
        return found

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

    def _text_features(self, text: str) -> list[str]:
        fields, text = self._mentions.of_pattern(text)
        written = pieces(text)
        kinds = [self._kind(one) if one != BOUNDARY else "boundary" for one in written]
        substantial = bool(fields) or "content" in kinds
        mentioned = self._mentions.of_wording([self._stems.key(piece) for piece in written])
        found = [f"#{name}" for name in (*fields, *mentioned.values())]
        previous = ""
        for piece, kind in zip(written, kinds, strict=True):
            if kind == "boundary":
                previous = ""
                continue
            if kind == "courtesy":
                if substantial:
                    continue
                found.append(_COURTESY)
            found.extend(self._features(piece, kind))
            if previous:
                found.append(f"{previous} {piece}")
            previous = piece
        return list(dict.fromkeys(found))

    def _weigh(self, options: Sequence[OptionTexts]) -> dict[str, Weights]:
        documents = [self._document(option) for option in options]
        if not any(documents):
            return {}
        model = bm25s.BM25(method="lucene", k1=_K1, b=_B)
        model.index(documents, create_empty_token=False, show_progress=False)
        data, columns, starts = (model.scores[name] for name in ("data", "indices", "indptr"))
        weights: dict[str, Weights] = {}
        for feature, column in sorted(model.vocab_dict.items()):
            scale = _scale_of(feature)
            weights[feature] = tuple(
                [
                    # Rounded, so that single-precision noise never decides between two options.
                    (int(columns[at]), round(float(data[at]) * scale, 4))
                    for at in range(int(starts[column]), int(starts[column + 1]))
                ]
            )
        return weights

    def _content_words(
        self, options: Sequence[OptionTexts], wordings: Mapping[str, Sequence[str]]
    ) -> list[str]:
        texts = [text for option in options for text in (option.description, *option.examples)]
        written = [piece for text in texts for piece in pieces(text)]
        values = [piece for named in wordings.values() for text in named for piece in pieces(text)]
        return [
            *(piece for piece in written if self._weights.keys() & self._stems.of(piece)),
            *values,
        ]


def _scale_of(feature: str) -> float:
    if feature.startswith("^"):
        return _BEGINNING_WEIGHT
    if feature.startswith("#"):
        return _VALUE_WEIGHT
    if feature.startswith("="):
        return _FUNCTION_WEIGHT
    return _PAIR_WEIGHT if " " in feature else 1.0
