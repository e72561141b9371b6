"""A text as the rules read it, and the way back to where it stands.

People write numbers in full-width or Arabic-Indic digits, with no-break spaces, en dashes and
direction marks; programs that copy them add zero-width characters. The rules know none of that:
they read plain characters, each with its place in the text.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_CHARACTERS: Final = 4_096
"""Characters whose reading is remembered; a text with all of Unicode must not fill the memory."""

_INVISIBLE: Final = frozenset({"Cf", "Mn", "Me"})
"""Unicode categories that are passed over: format characters (zero width, direction), marks."""

_MARKS: Final = frozenset({"Mn", "Me"})

_BREAKS: Final = "\n\r\v\f\u0085\u2028\u2029"

_SPECIAL: Final = re.compile(r"[^\t\n -~]")
"""Not one of the characters that are read as they stand."""

UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts that put no space between words."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A text in plain characters."""

    text: str
    source: str
    places: Sequence[int] | None
    """Index in `text` to index in `source`; None where they are the same."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the reading, not empty, stands in the source.

        The marks on its last character belong to it: an accent left behind would sit on the marker.
        """
        if self.places is None:
            return start, end
        first, last = self.places[start], self.places[end - 1] + 1
        while last < len(self.source) and unicodedata.category(self.source[last]) in _MARKS:
            last += 1
        return first, last


def plain(text: str) -> Reading:
    """Read a text for its numbers and addresses.

    Digits of every script are ASCII digits, dashes are hyphens, spaces are spaces, full-width
    letters are letters; breaks are line feeds; invisible characters are left out.
    """
    return Reading(text, text, None) if _SPECIAL.search(text) is None else _read(text, _plain)


def folded(text: str) -> Reading:
    """Read a text for names: without case and accents."""
    return Reading(text.lower(), text, None) if text.isascii() else _read(text, _folded)


def _read(text: str, one: Callable[[str], str]) -> Reading:
    characters: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        read = one(character)
        characters.append(read)
        places.extend([place] * len(read))
    return Reading("".join(characters), text, places)


@lru_cache(maxsize=_CHARACTERS)
def _plain(character: str) -> str:
    if character in _BREAKS:
        return "\n"
    category = unicodedata.category(character)
    match category:
        case "Nd":
            return str(unicodedata.decimal(character))
        case "Pd":
            return "-"
        case "Zs":
            return " "
        case "Cc":
            return " " if character == "\t" else ""
    if category in _INVISIBLE:
        return ""
    if character == "\u2212":  # the minus sign, which is no dash to Unicode
        return "-"
    compatible = unicodedata.normalize("NFKC", character)
    return compatible if len(compatible) == 1 else character


_LETTERS: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "\u0131": "i", "þ": "th"}
)
"""Letters that Unicode does not take apart and people write without."""


@lru_cache(maxsize=_CHARACTERS)
def _folded(character: str) -> str:
    if unicodedata.category(character) in _INVISIBLE:
        return ""
    parts = unicodedata.normalize("NFKD", character.casefold()).translate(_LETTERS)
    return "".join(one for one in parts if unicodedata.category(one) not in _MARKS)
