"""Mentions of known values: an order number, the name of a city.

For a text score it matters *that* a message names a value of a field, not which one: *is the
kettle in stock in Lyon?* and *is the lamp in stock in Paris?* are one request.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from turnstream.text.words import BOUNDARY, pieces

_ANYTHING: Final = ("", "a", "hello there")
"""Texts that no identifier resembles; a pattern that matches one of them says nothing."""


class Mentions:
    """Finds the fields that a message gives a value for."""

    def __init__(
        self,
        patterns: Mapping[str, str],
        wordings: Mapping[str, Sequence[str]],
        key: Callable[[str], str],
    ) -> None:
        """Compile.

        Args:
            patterns: field to the regular expression of its values.
            wordings: field to all words and phrases that name one of its values.
            key: what two forms of one word have in common (its stem).
        """
        self._key = key
        self._patterns = [
            (field, compiled)
            for field, pattern in patterns.items()
            if not any((compiled := _searching(pattern)).search(one) for one in _ANYTHING)
        ]
        self._wordings: dict[str, list[tuple[list[str], str]]] = {}
        """First key of a name, to its keys and the field."""
        for field, texts in wordings.items():
            for text in dict.fromkeys(texts):
                keys = [key(word) for word in pieces(text) if word != BOUNDARY]
                if keys:
                    entry = (keys, field)
                    entries = self._wordings.setdefault(keys[0], [])
                    if entry not in entries:
                        entries.append(entry)

        self._parts = {
            part for entries in self._wordings.values() for keys, _ in entries for part in keys
        }

    def of_pattern(self, text: str) -> tuple[list[str], str]:
        """Fields whose pattern occurs in the text, and the text without those values."""
        fields: list[str] = []
        for field, pattern in self._patterns:
            without, count = pattern.subn(" ", text)
            if count:
                fields.append(field)
                text = without
        return fields, text

    def begins(self, key: str) -> bool:
        """Whether a word with this key may begin the name of a value."""
        return key in self._wordings

    def uses(self, key: str) -> bool:
        """Whether a word with this key may be part of the name of a value."""
        return key in self._parts

    def of_wording(self, keys: list[str], places: Sequence[int] | None = None) -> dict[int, str]:
        """Positions of the words that name a value, with its field.

        Args:
            keys: the keys of a text's words, in order.
            places: positions where a name may begin, ascending; all of them by default.
        """
        found: dict[int, str] = {}
        for at in range(len(keys)) if places is None else places:
            for wording, field in self._wordings.get(keys[at], ()):
                end = at + len(wording)
                if len(wording) == 1 or keys[at:end] == wording:
                    for position in range(at, end):
                        found.setdefault(position, field)
        return found


def _searching(pattern: str) -> re.Pattern[str]:
    body = pattern.removeprefix("^").removesuffix("$").removesuffix("\\Z")
    return re.compile(rf"(?<![\w-])(?:{body})(?![\w-])", re.ASCII | re.IGNORECASE)
