"""What a text is compared by: stems, beginnings, concepts, character trigrams, pairs, values.

The same features are taken from a catalog's examples and from a customer's message. Each has a
strength: a shared word says most, a shared concept less, shared letters least. Function words alone
say little, but *where* and *how much* carry a request, so they are kept.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from turnstream.text.concepts import concepts_of
from turnstream.text.lexicon import Lexicon
from turnstream.text.mentions import Mentions
from turnstream.text.scope import denied_words
from turnstream.text.vocabulary import Stems, beginning
from turnstream.text.words import BOUNDARY, pieces

Kind = Literal["content", "function", "courtesy", "number", "boundary"]

COURTESY: Final = "!"
"""Feature of a text that consists of courtesies."""

ASKING: Final = frozenset({"@where", "@when"})
"""Concepts whose words ask by themselves: *when, A-1001?* is a request, *it is A-1001* is none."""

_STEM: Final = 0.8
_BEGINNING: Final = 0.3
_CONCEPT: Final = 0.8
_NEGATED: Final = 0.6
_PHRASE: Final = 1.0
_TRIGRAM: Final = 0.12
_NUMBER: Final = 0.5
_FUNCTION: Final = 0.5
_PAIR: Final = 0.5
VALUE_STRENGTH: Final = 0.7
"""Strengths, found by cross-validation over the development requests beside the tests."""

NAMED_SHARE: Final = 0.55
"""What a word says that names a value: any request may be about a kettle."""

_FUNCTION_SHARE: Final = 0.5
"""A concept of a function word (*when*, *no longer*) next to one of a content word."""

_DIGITS: Final = re.compile(r"[0-9]+")
"""A number tells by its shape: *18h30*, *7pm*, *3x*."""

_LEAST_FOR_TRIGRAMS: Final = 4

Features = dict[str, float]
"""Feature to its strength."""


class FeatureExtractor:
    """Takes the features of words and of whole texts."""

    def __init__(
        self, *, languages: Sequence[str], lexicon: Lexicon, stems: Stems, mentions: Mentions
    ) -> None:
        """Prepare the concepts of the languages."""
        self._lexicon = lexicon
        self._stems = stems
        self._mentions = mentions
        self._concepts: dict[str, list[str]] = {}
        self._phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for concept, wordings in concepts_of(tuple(languages)).items():
            for wording in wordings:
                language, _, text = wording.partition(":")
                words = tuple(pieces(text))
                if len(words) == 1:
                    self._add_word(language, text, concept)
                else:
                    self._phrases.setdefault(words[0], []).append((words, f"@{concept}"))

    def _add_word(self, language: str, word: str, concept: str) -> None:
        for stem in self._stems.of(word):
            if stem.startswith(f"{language}:"):
                members = self._concepts.setdefault(stem, [])
                if f"@{concept}" not in members:
                    members.append(f"@{concept}")

    def kind(self, piece: str) -> Kind:
        """What kind of word it is."""
        if piece == BOUNDARY:
            return "boundary"
        if piece in self._lexicon.courtesy:
            return "courtesy"
        if piece in self._lexicon.function or (len(piece) == 1 and piece.isascii()):
            return "function"
        return "content" if not any(char.isdigit() for char in piece) else "number"

    def phrases(self, piece: str) -> Sequence[tuple[tuple[str, ...], str]]:
        """The phrases that begin with a word, with their concepts."""
        return self._phrases.get(piece, ())

    def concepts(self, piece: str) -> list[str]:
        """The concepts of a word."""
        found = [one for stem in self._stems.of(piece) for one in self._concepts.get(stem, ())]
        return list(dict.fromkeys(found))

    def of_word(self, piece: str, kind: Kind) -> Features:
        """The features of one word."""
        match kind:
            case "content":
                return self._of_content(piece)
            case "courtesy":
                return dict.fromkeys(self._stems.of(piece), _STEM)
            case "function":
                found = {f"={piece}": _FUNCTION}
                self._add_concepts(found, piece, _CONCEPT * _FUNCTION_SHARE)
                return found
            case "number":
                return {_DIGITS.sub("0", piece): _NUMBER}
            case "boundary":
                return {}

    def _of_content(self, piece: str) -> Features:
        found = dict.fromkeys(self._stems.of(piece), _STEM)
        first = beginning(piece)
        if first is not None:
            found[first] = _BEGINNING
        self._add_concepts(found, piece, _CONCEPT)
        if len(piece) >= _LEAST_FOR_TRIGRAMS:
            edged = f"<{piece}>"
            for at in range(len(edged) - 2):
                found[f"~{edged[at : at + 3]}"] = _TRIGRAM
        return found

    def _add_concepts(self, found: Features, piece: str, strength: float) -> None:
        concepts = self.concepts(piece)
        for concept in concepts:
            # A word of several concepts is a weaker witness of each.
            found[concept] = strength / len(concepts) ** 0.5

    def of_text(self, text: str) -> Features:
        """The features of a whole text."""
        fields, text = self._mentions.of_pattern(text)
        written = pieces(text)
        written = [self._lexicon.short.get(one, one) for one in written]
        kinds = [self.kind(one) for one in written]
        mentioned = self._mentions.of_wording([self._stems.key(piece) for piece in written])
        named = [value(one) for one in (*fields, *mentioned.values())]
        found: Features = dict.fromkeys(named, VALUE_STRENGTH)
        substantial = bool(found) or "content" in kinds
        content = [at for at, kind in enumerate(kinds) if kind == "content"]
        for at in denied_words(written, content, self._lexicon):
            found.update(dict.fromkeys(negated(self._stems.key(written[at])), _NEGATED))
        previous = ""
        for at, (piece, kind) in enumerate(zip(written, kinds, strict=True)):
            if kind == "boundary":
                previous = ""
                continue
            if kind == "courtesy":
                if substantial:
                    continue
                found[COURTESY] = 1.0
            share = NAMED_SHARE if at in mentioned else 1.0
            for feature, strength in self.of_word(piece, kind).items():
                found[feature] = max(strength * share, found.get(feature, 0.0))
            for phrase, concept in self.phrases(piece):
                if tuple(written[at : at + len(phrase)]) == phrase:
                    found[concept] = _PHRASE
            if previous:
                found[pair(previous, piece)] = _PAIR
            previous = piece
        return found


def value(field: str) -> str:
    """The feature of a value of a field."""
    return f"#{field}"


def negated(key: str) -> list[str]:
    """The features of a word that is negated or said to be over: *do not send it*.

    Args:
        key: the word's key, its stems.
    """
    return [f"-{stem}" for stem in key.split(" ")]


def pair(first: str, second: str) -> str:
    """The feature of two words in a row."""
    return f"{first} {second}"


def strength_of(feature: str) -> float:
    """The strength of a feature that is not of one word; 0 for one that is."""
    if feature == COURTESY:
        return 1.0
    if " " in feature:
        return _PAIR
    return _BESIDE_WORDS.get(feature[0], 0.0)


_BESIDE_WORDS: Final[Mapping[str, float]] = {
    "#": VALUE_STRENGTH,
    "@": _PHRASE,
    "-": _NEGATED,
}
"""First character of a feature to its strength: values, concepts of phrases, negated words."""
