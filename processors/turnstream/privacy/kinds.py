"""The kinds of personal data, and the markers that stand for what was removed.

A marker says the kind and nothing else: neither length nor hash of what it replaces, so it cannot
be undone, and two markers of a kind are equal whatever they replace.
"""

import re
from typing import Final, Literal, NamedTuple, get_args

Kind = Literal["email", "iban", "card", "national_number", "phone", "name"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""Of two findings that overlap and are equally long, the kind that comes first here counts."""

MARKERS: Final[dict[Kind, str]] = {kind: f"[{kind}]" for kind in KINDS}
"""Kind to what is written in the place of a finding."""

MARKER: Final = re.compile("|".join(map(re.escape, MARKERS.values())))
"""A marker in a text. Nothing inside one is ever a finding, nor does a finding reach across one."""


class Finding(NamedTuple):
    """Where personal data stands in a text. What it is is in the text alone."""

    kind: Kind
    start: int
    """First code point."""
    end: int
    """One past the last code point."""


class Redaction(NamedTuple):
    """A text without its personal data."""

    text: str
    findings: tuple[Finding, ...]
    """What was removed, in the order of the text, by its place in the text before."""


def joined(findings: list[Finding]) -> list[Finding]:
    """Findings in order; those that overlap become one, of the longest one's kind.

    They are joined rather than chosen between: of an IBAN and the telephone number that its digits
    seem to be, no part may stay behind.
    """
    found: list[Finding] = []
    longest = 0
    for one in sorted(findings, key=lambda each: (each.start, -each.end, KINDS.index(each.kind))):
        length = one.end - one.start
        if not found or one.start >= found[-1].end:
            found.append(one)
            longest = length
            continue
        last = found[-1]
        before = (-longest, KINDS.index(last.kind))
        kind = one.kind if (-length, KINDS.index(one.kind)) < before else last.kind
        found[-1] = Finding(kind, last.start, max(last.end, one.end))
        longest = max(longest, length)
    return found
