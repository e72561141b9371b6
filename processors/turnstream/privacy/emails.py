"""E-mail addresses: RFC 5322 as people write them, with the letters of RFC 6531 and of IDN.

Found: a local part (plus tags, dots, letters of any script, or in quotes), `@`, and a domain of at
least two labels whose last has no digits. Not found: `name@localhost`, a name without a domain
(`@name`), and what is spelled out (*name at example dot com*): too much else reads the same.

`= / ? #` end a local part although RFC 5322 allows them: in chats they belong to links, as in
`?email=name@example.com`. In scripts without spaces an address in ASCII ends where the script
begins: nothing else tells it from the sentence around it.
"""

import re
from collections.abc import Iterator
from typing import Final

from turnstream.privacy.reading import UNSPACED

_LOCAL: Final = frozenset("!$%&'*+-^_`{|}~.")
"""Of RFC 5322's atoms, less those of links; letters and digits come on top."""

_TRIMMED: Final = "!$%&'*-^`{|}~."
"""Not at the beginning of a local part: quotes and marks that stand around an address."""

_DOMAIN: Final = re.compile(r"[^\W_](?:[^\W_]|-)*(?:\.[^\W_](?:[^\W_]|-)*)+")

_LAST_LABEL: Final = re.compile(r"xn--[a-z0-9-]{2,}|[^\W\d_]{2,}", re.IGNORECASE)

_QUOTED: Final = re.compile(r'"[^"\n]{1,64}"\Z')
"""A local part in quotes; RFC 5321 allows 64 characters, and longer ones would be looked for in
vain at every address."""


def emails(text: str) -> Iterator[tuple[int, int]]:
    """Where a reading has e-mail addresses.

    No address takes in another `@`, so each character is looked at twice at most.
    """
    at = text.find("@")
    after = 0
    while at >= 0:
        start = _start_of_local(text, at, after)
        end = _end_of_domain(text, at + 1)
        if start is not None and end is not None:
            yield start, end
            after = end
        else:
            after = at + 1
        at = text.find("@", at + 1)


def _start_of_local(text: str, at: int, after: int) -> int | None:
    if text[at - 1 : at] == '"':
        quoted = _QUOTED.search(text, max(after, at - 66), at)
        return quoted.start() if quoted is not None else None
    start = at
    unspaced = start > after and UNSPACED.match(text[start - 1]) is not None
    while start > after and _is_local(text[start - 1], unspaced=unspaced):
        start -= 1
    while start < at and text[start] in _TRIMMED:
        start += 1
    return start if start < at and text[at - 1] != "." else None


def _is_local(character: str, *, unspaced: bool) -> bool:
    if character.isascii():
        return character.isalnum() or character in _LOCAL
    return character.isalnum() and (unspaced or UNSPACED.match(character) is None)


def _end_of_domain(text: str, start: int) -> int | None:
    match = _DOMAIN.match(text, start)
    if match is None:
        return None
    end = match.end()
    if UNSPACED.match(text[start]) is None:
        script = UNSPACED.search(text, start, end)
        end = script.start() if script is not None and text[script.start() - 1] != "." else end
    labels = text[start:end].rstrip("-.").split(".")
    while len(labels) > 1 and _LAST_LABEL.fullmatch(labels[-1].rstrip("-")) is None:
        labels.pop()
    return start + len(".".join(labels).rstrip("-")) if len(labels) > 1 else None
