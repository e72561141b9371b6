"""International bank account numbers (ISO 13616): country, check digits, the country's own form.

The check and the registry of forms are :mod:`stdnum.iban`. Mod 97 and the form together leave no
room for chance, so upper and lower case, spaces, dashes and line breaks are all accepted.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from stdnum import iban, numdb

_BEGINNING: Final = re.compile(r"(?<![A-Za-z0-9])(?:IBAN)?([A-Z]{2}[ \-]?[0-9]{2})", re.IGNORECASE)

_REST: Final = re.compile(r"[ \-.\n]{0,2}([A-Za-z0-9]{1,35})")

_ELEMENT: Final = re.compile(r"([0-9]+)![nac]")


def ibans(text: str) -> Iterator[tuple[int, int]]:
    """Where a reading has IBANs.

    A country's numbers are of one length, which tells where the number ends and a word begins.
    """
    for match in _BEGINNING.finditer(text):
        start = match.start(1)
        end = _end(text, start, match.end())
        if end is not None:
            yield start, end


def _end(text: str, start: int, end: int) -> int | None:
    number = text[start:end].replace(" ", "").replace("-", "")
    length = _length(number[:2].upper())
    while len(number) < length:
        rest = _REST.match(text, end)
        if rest is None:
            return None
        number += rest.group(1)
        end = rest.end()
    if len(number) > length or not iban.is_valid(number, check_country=False):
        return None
    return end


@cache
def _length(country: str) -> int:
    """Characters of a country's IBANs; of no country, none. There are 676 pairs of letters."""
    _, registered = numdb.get("iban").info(country)[0]
    form = registered.get("bban", "")
    return len("CC00") + sum(map(int, _ELEMENT.findall(form))) if form else 0
