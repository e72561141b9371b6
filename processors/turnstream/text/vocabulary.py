"""From a written word to features that survive inflection, abbreviation and slips of the finger.

A word becomes its stem in each language of the catalog and, when it is long enough, its first
letters: Snowball keeps *livrer* and *livraison* apart, their beginning does not. All languages
are tried at once, because a short message is a poor witness of its own language; a word of the
wrong language simply finds nothing.

A word that the catalog does not know is compared with those it does: as a cut word (*dispo*), as
its consonants (*cmd*), as a misspelling (*comande*).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Final

import Stemmer
from rapidfuzz import process
from rapidfuzz.distance import OSA

PREFIX: Final = 4
"""Letters of the shared beginning. Three join unrelated words, five separate *livrer* from
*livraison*."""

_LEAST_FOR_PREFIX: Final = 5
_LEAST_FOR_SLIP: Final = 4
"""Shorter words differ by one letter without being misspelt (*not*, *now*)."""
_LEAST_FOR_CUT: Final = 4
_LONGEST: Final = 30
"""Longer strings are not words; comparing them with every known word would cost the most."""
_SIMILAR: Final = 0.79
"""One slip in five letters, two in ten; a little under 0.8, which rounding would miss."""
_VOWELS: Final = frozenset("aeiouy")

_STEMMERS: Final = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}


class Stems:
    """The stems of a word in several languages."""

    def __init__(self, languages: Sequence[str]) -> None:
        """Load the stemmers of the languages that have one."""
        available = set(Stemmer.algorithms())
        self._stemmers = [
            (language, Stemmer.Stemmer(_STEMMERS[language]))
            for language in languages
            if _STEMMERS.get(language) in available
        ]
        for _, stemmer in self._stemmers:
            stemmer.maxCacheSize = 0  # callers keep what they need; two caches would only hold more

    def of(self, word: str) -> tuple[str, ...]:
        """One feature per language; the word itself when there is no stemmer at all."""
        found = tuple([f"{name}:{stemmer.stemWord(word)}" for name, stemmer in self._stemmers])
        return found or (f":{word}",)

    def key(self, word: str) -> str:
        """What the forms of one word have in common, over all languages."""
        return " ".join(self.of(word))


def beginning(word: str) -> str | None:
    """The feature of a word's first letters; None for a short word."""
    return f"^{word[:PREFIX]}" if len(word) >= _LEAST_FOR_PREFIX else None


class Speller:
    """Finds the known word that an unknown one was meant to be."""

    def __init__(self, content: Iterable[str], function: Iterable[str]) -> None:
        """Keep the words to compare with.

        Args:
            content: words of the catalog.
            function: function words, so that a misspelt *wehre* does not become a content word.
        """
        self._content = frozenset(content)
        self._sorted = sorted(self._content)
        known = sorted({*self._content, *(w for w in function if len(w) >= _LEAST_FOR_SLIP)})
        self._letters = frozenset("".join(known))
        self._alike = {
            length: [
                one for one in known if _may_be_slip(abs(length - len(one)), max(length, len(one)))
            ]
            for length in range(_LEAST_FOR_SLIP, _LONGEST + 1)
        }
        """Length to the known words of about that length; of others none is similar enough."""
        self._begun: dict[str, list[str]] = {}
        """A first letter and one that comes after it, to the words of the catalog."""
        for one in self._sorted:
            for letter in set(one[1:]):
                self._begun.setdefault(one[0] + letter, []).append(one)

    def meant(self, word: str) -> str | None:
        """The known word, or None when there is none or the choice would be arbitrary.

        Only words that may be meant are compared: a message of nothing but unknown ones would
        otherwise take a hundred times as long as another.
        """
        size = len(word)
        if size > _LONGEST or not word.isalpha():
            return None
        if 1 < size <= _LEAST_FOR_CUT and not _VOWELS.intersection(word):
            return self._by_consonants(word)
        if size >= _LEAST_FOR_CUT:
            cut = min(self._beginning_with(word), key=lambda one: (len(one), one), default=None)
            if cut is not None:
                return cut
        # Each letter that no known word has is a slip of its own.
        strange = sum([letter not in self._letters for letter in word])
        if size < _LEAST_FOR_SLIP or not _may_be_slip(strange, size):
            return None
        best = process.extractOne(
            word, self._alike[size], scorer=OSA.normalized_similarity, score_cutoff=_SIMILAR
        )
        if best is None:
            return None
        found: str = best[0]
        # A letter more or less makes another word too often (*parce*, *parcel*) to drop it as a
        # function word; within one length it is a slip.
        return found if found in self._content or len(found) == size else None

    def _beginning_with(self, word: str) -> Iterator[str]:
        """The words of the catalog that a word is the beginning of."""
        first = bisect_left(self._sorted, word)
        return takewhile(lambda one: one.startswith(word), islice(self._sorted, first, None))

    def _by_consonants(self, word: str) -> str | None:
        """*cmd* for *commande*: the letters in order, the first one first."""
        found = [one for one in self._begun.get(word[:2], ()) if _in_order(word, one)]
        # The consonants that were left out tell how far the guess is fetched.
        return min(found, key=lambda one: (_consonants(one) - len(word), one), default=None)


def _may_be_slip(least: int, letters: int) -> bool:
    """Whether so many slips are few enough for a word of so many letters."""
    return 1 - least / letters >= _SIMILAR


def _in_order(letters: str, word: str) -> bool:
    rest = iter(word)
    return all(letter in rest for letter in letters)


def _consonants(word: str) -> int:
    previous = ""
    count = 0
    for letter in word:
        if letter not in _VOWELS and letter != previous:
            count += 1
        previous = letter
    return count
