"""Words without what writers leave out: case and accents."""

import re
import unicodedata
from typing import Final

_MARKS: Final = re.compile(r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
"""The blocks of combining diacritical marks: what remains of accents after decomposition."""


def folded(text: str) -> str:
    """Lower case, without accents: how words are compared."""
    if text.isascii():
        return text.lower()
    return _MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))
