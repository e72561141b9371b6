"""Numbers written in groups: the groups, and which of them may be one number."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_GROUP: Final = re.compile(r"[0-9]+")

_JOINT: Final = re.compile(r"[ \-._\n]{1,3}")
"""What may stand between the groups of a number. Commas and slashes stand between numbers."""

_PREFIX: Final = 24
"""Longest word that may be written together with a number after it, as in *card4111*."""


class Group(NamedTuple):
    """Digits without a break."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many digits."""
        return self.end - self.start


def runs(text: str) -> Iterator[list[Group]]:
    """Groups that only spaces, dashes, dots and line breaks separate, as long as possible."""
    run: list[Group] = []
    for match in _GROUP.finditer(text):
        group = Group(*match.span())
        if run and _JOINT.fullmatch(text, run[-1].end, group.start) is None:
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def stands_free(text: str, start: int, end: int) -> bool:
    """Whether no digit, and no letter of an identifier, is attached to a part of a reading.

    Letters after a number, or letters and digits mixed, make it part of an identifier. A word right
    before it does not.
    """
    if end < len(text) and _is_plain(text[end]):
        return False
    first = start
    while first > max(0, start - _PREFIX) and _is_plain(text[first - 1]):
        if not text[first - 1].isalpha():
            return False
        first -= 1
    return first == 0 or not _is_plain(text[first - 1])


def _is_plain(character: str) -> bool:
    return character.isascii() and character.isalnum()
