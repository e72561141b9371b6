"""A message as words: folded, without elisions, with its clause boundaries.

Nothing is guessed about the language. Apostrophes split (*l'article* is *l*, *article*), except
in the English contractions of *not*, which become one word (*don't* is *dont*). Scripts written
without spaces are cut into pairs of characters, as search engines do.
"""

import re
from typing import Final

from turnstream.core import folding

BOUNDARY: Final = "."
"""Stands for punctuation between clauses; never a word."""

MAX_CHARACTERS: Final = 2_000
"""Longest text that is read, in characters: a pasted document must not cost more than a message."""

_PIECE: Final = re.compile(r"[^\W_]+|[.,;:!?()\n…]")
_PLAIN_PIECE: Final = re.compile(r"[a-z0-9]+|[.,;:!?()\n]")
"""The same for folded text in ASCII, twice as fast."""
_UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")


def folded(text: str) -> str:
    """As :mod:`turnstream.core.folding`, with one kind of apostrophe and without ligatures."""
    plain = folding.folded(text)
    if plain.isascii():
        return plain
    return plain.replace("\u2019", "'").replace("œ", "oe").replace("æ", "ae")


ENDS: Final = frozenset(".,;:!?()\n…")
"""Punctuation between clauses."""


def written(text: str) -> list[str]:
    """Words and punctuation between clauses, in order."""
    plain = folded(text[:MAX_CHARACTERS])
    if "'" in plain:
        plain = plain.replace("n't", "nt")
    if plain.isascii():
        return _PLAIN_PIECE.findall(plain)
    found: list[str] = _PIECE.findall(plain)
    if _UNSPACED.search(plain) is None:
        return found
    split: list[str] = []
    for one in found:
        if _UNSPACED.search(one) is None:
            split.append(one)
        else:
            split.extend(one[at : at + 2] for at in range(max(len(one) - 1, 1)))
    return split


def pieces(text: str) -> list[str]:
    """Words in order, with :data:`BOUNDARY` between clauses."""
    return [BOUNDARY if one in ENDS else one for one in written(text)]
