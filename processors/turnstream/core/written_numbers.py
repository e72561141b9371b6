r"""Numbers as customers write them, and only those that can be read in one way.

``1,000`` is a thousand to some and one to others, so it is neither: a wrong amount is worse than a
question more. What says more is read:

=========================  =========================================================================
written                    read as
=========================  =========================================================================
12.50  12,50  1234,567     a point or comma is decimal where a group of thousands cannot be
1,234.56  1.234,56         the last of two separators is decimal
1,000,000  1'000           a separator that is there twice, or an apostrophe, groups thousands
1 000, no plain space      a number: nobody puts a no-break, narrow or thin space between two
1 000                      a number: there is none that is written 000
2 500                      one number or two: nothing, unless it is the whole reply to a question
digits of other scripts    the same numbers, with their own separators; mixed digits are nothing
-5                         negative; a dash that may be something else, or a trailing one: nothing
5%  5 percent              marked: it may mean 5 or 0.05, or a part of something
5 million  5 k  5 cents    nothing, and 9 1/2 and minus 5 neither: what stands beside it counts
1/2  12:30  2026-01-31     nothing, and A-5 neither: what is joined to more is no number of its own
=========================  =========================================================================

Nothing does not mean that there was none: whoever asked for a number must not take the one beside
it instead, and is told.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from turnstream.core.evolution import dataclass

_DIGITS: Final = 30
"""Longest number that is read. No quantity has more digits, and far longer ones cannot be read."""

_THOUSAND: Final = 3
"""Digits of a group."""

_CURRENCY: Final = "$€£¥₹₽₩₺₴₪₫฿₦₱¢"
_JOINTS: Final = "/:\N{FRACTION SLASH}\N{MIDDLE DOT}"
_HYPHENS: Final = "\\-\N{MINUS SIGN}\N{HYPHEN}\N{NON-BREAKING HYPHEN}"
_DASHES: Final = "\N{EN DASH}\N{EM DASH}"
_APOSTROPHES: Final = "'\N{RIGHT SINGLE QUOTATION MARK}"
_PERCENT: Final = "%\N{PER MILLE SIGN}\N{ARABIC PERCENT SIGN}\N{FULLWIDTH PERCENT SIGN}"
_EITHER: Final = {".": ".", ",": ",", "\N{FULLWIDTH FULL STOP}": ".", "\N{FULLWIDTH COMMA}": ","}
"""Decimal to some, between thousands to others."""
_DECIMAL: Final = "\N{ARABIC DECIMAL SEPARATOR}"
_GROUPING: Final = f"{_APOSTROPHES}\N{ARABIC THOUSANDS SEPARATOR}\xa0\u2007\u2009\u202f"
"""Between thousands to everybody; the spaces are those that no line is broken at, and thin ones."""

_POINTS: Final = f"{''.join(_EITHER)}{_DECIMAL}\N{ARABIC THOUSANDS SEPARATOR}"

_BEFORE: Final = (
    rf"(?<![\w{_POINTS}+{_HYPHENS}{_DASHES}])(?<![{_HYPHENS}{_DASHES}][{_CURRENCY}])"
    rf"(?<!\d[{_CURRENCY}{_JOINTS}])"
)
_AFTER: Final = rf"(?![\w{_HYPHENS}]|[{_POINTS}{_APOSTROPHES}{_JOINTS}{_DASHES}]\w|[{_CURRENCY}]\d)"
_WRITTEN: Final = re.compile(
    rf"{_BEFORE}([-+\N{{MINUS SIGN}}]?)"
    rf"(\d(?:\d|[{_POINTS}{_APOSTROPHES}](?=\d)|[ {_GROUPING}](?=\d{{3}}(?!\d)))*+)"
    rf"{_AFTER}(\s?[{_PERCENT}])?"
)
"""A sign, digits with whatever may stand between them, a percent sign. Never a part of those."""

_FRACTIONS: Final = "\xbc-\xbe\u2150-\u215f\u2189"
"""Characters such as the one for a half."""

_SCALE: Final = (
    "k|grand|hundred|thousand|(?:m|b|tr)illions?|mln|bn|dozen|cents?|pence"
    "|hundert|tausend|tsd|million(?:en)?|mio|milliarden?|mrd|dutzend"
    "|mille|milliards?|douzaines?|centimes?|cien|mil|mill[oó]n(?:es)?|docenas?|c[eé]ntimos?"
    "|honderd|duizend|miljoen|miljard|dozijn|mila|milion[ei]|miliard[oi]|lakhs?|crores?"
)
"""What makes another amount of the number before it."""
_PERCENT_WORDS: Final = r"percent|per\s?cent|pct|prozent|procent|pour\s?cents?|por\s?ciento"

_PERCENT_AFTER: Final = re.compile(rf"\s?(?:{_PERCENT_WORDS})(?!\w)", re.IGNORECASE)
_SCALED: Final = (
    rf"\s?(?:(?:{_SCALE})(?!\w)|[{_FRACTIONS}])"
    rf"|\s\d{{1,9}}\s?[/\N{{FRACTION SLASH}}]\s?\d"
)
_SCALE_AFTER: Final = re.compile(_SCALED, re.IGNORECASE)

_NEGATIONS: Final = ("minus", "negative", "moins", "menos", "meno")
_NEGATED: Final = re.compile(
    rf"(?:(?<!\w)(?:{'|'.join(_NEGATIONS)})|\N{{MINUS SIGN}}|\A\s*-)\s{{1,4}}[{_CURRENCY}]?\Z",
    re.IGNORECASE,
)
_NEGATION_CHARACTERS: Final = 16
"""Characters before a number that are looked at: a text of nothing but numbers is read once."""

_UNREAD: Final = re.compile(
    rf"(?<!\w)(?<!\w[{_POINTS}{_APOSTROPHES}{_JOINTS}{_HYPHENS}{_DASHES}])"
    rf"(?:[{_FRACTIONS}]|\d[\d{_POINTS}{_APOSTROPHES}]*+"
    rf"(?!:\d|-\d\d-\d|(?!(?:{_SCALE}|m|b|e\d+)(?!\w)|[{_FRACTIONS}])[^\W\d_]))",
    re.IGNORECASE,
)
"""The beginning of something that may be a number and is not written like one: 1/2, 5k, .5, 12-.
A time, a date, 3kg and A-5 are something else."""

_LOOKS_LIKE_NUMBER: Final = re.compile(rf"[-+]?\d[\d{_POINTS}]*")


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number that somebody wrote."""

    text: str | None
    """As JSON would have it, without leading zeros and without zeros at the end of a fraction. None
    where it can be read in several ways, or in none."""
    percent: bool


def numbers_in(text: str, *, asked: bool = False) -> Iterator[WrittenNumber]:
    """The numbers in a text, and what may be one and cannot be read in one way.

    Args:
        text: what somebody wrote.
        asked: whether it is the reply to a question for a number. ``2 500`` is then one, if it is
            all there is, and what is not even written like a number may still be meant as one.
    """
    if not text.isascii():
        # Marks of direction and joiners are not seen, and change nothing.
        text = "".join(one for one in text if unicodedata.category(one) != "Cf")
    everything = text.strip().strip(f"{_CURRENCY}.!").strip()
    for match in _WRITTEN.finditer(text):
        sign, written, percent = match.groups()
        minus = "-" if sign in ("-", "\N{MINUS SIGN}") else ""
        before = text[max(match.start() - _NEGATION_CHARACTERS, 0) : match.start()]
        parts = _apart(written, alone=asked and everything == sign + written)
        # What stands before or after belongs to the nearest of several that stand side by side.
        if _NEGATED.search(before):
            parts[0] = None
        if _SCALE_AFTER.match(text, match.end()):
            parts[-1] = None
        is_percent = percent is not None or _PERCENT_AFTER.match(text, match.end()) is not None
        for part in parts:
            number = _read(part) if part is not None else None
            yield WrittenNumber(None if number is None else minus + number, is_percent)
    if asked and _UNREAD.search(_WRITTEN.sub(" ", text)):
        yield WrittenNumber(None, percent=False)


def whole(wanted: str) -> re.Pattern[str]:
    """Finds a text as whole words, and digits at its ends not as a part of a longer number."""
    before, after = r"(?<!\w)", r"(?!\w)"
    if wanted[:1].isdecimal():
        before = _BEFORE
    if wanted[-1:].isdecimal():
        after = _AFTER
    if _LOOKS_LIKE_NUMBER.fullmatch(wanted):
        after += rf"(?!\s?[{_PERCENT}])(?! \d{{3}}(?!\d))(?!{_PERCENT_AFTER.pattern}|{_SCALED})"
        before += "".join(rf"(?<!\b{word} )" for word in _NEGATIONS)
        if re.match(r"\d{3}(?!\d)", wanted):
            before += r"(?<!\d )"
    return re.compile(f"{before}{re.escape(wanted)}{after}")


def _apart(written: str, *, alone: bool) -> list[str | None]:
    """The numbers of a run of digits: one, several side by side, or nobody knows."""
    parts = written.split(" ")
    if len(parts) == 1:
        return [*parts]
    grouped = len(parts[0]) <= _THOUSAND and parts[0].isdecimal() and parts[0][0] != "0"
    if not grouped or not all(part.isdecimal() for part in parts[1:-1]):
        return [*parts]
    certain = alone or any(unicodedata.decimal(part[0]) == 0 for part in parts[1:])
    return [written.replace(" ", "\xa0")] if certain else [None]


def _read(written: str) -> str | None:
    """A number in the form of JSON; None where it can be read in several ways, or in none."""
    digits = [one for one in written if one.isdecimal()]
    if len(digits) > _DIGITS or len({ord(one) - unicodedata.decimal(one) for one in digits}) > 1:
        return None
    plain = "".join(
        str(unicodedata.decimal(one)) if one.isdecimal() else _EITHER.get(one, one)
        for one in written
    )
    marks = [one for one in plain if not one.isdecimal()]
    if not marks:
        return _canonical(plain, "")
    *others, last = marks
    if set(marks) == {last} and (last in _GROUPING or (others and last != _DECIMAL)):
        return _grouped(plain, last)
    if last in others or last in _GROUPING:
        return None
    above, _, below = plain.rpartition(last)
    if others:
        before = _grouped(above, others[0]) if len(set(others)) == 1 else None
        return None if before is None else _canonical(before, below)
    doubtful = len(below) == _THOUSAND and len(above) <= _THOUSAND and above[0] != "0"
    return None if doubtful and last != _DECIMAL else _canonical(above, below)


def _grouped(written: str, mark: str) -> str | None:
    """Digits in groups of thousands, without what stands between them."""
    first, *rest = written.split(mark)
    fits = 0 < len(first) <= _THOUSAND and first[0] != "0"
    return first + "".join(rest) if fits and all(len(one) == _THOUSAND for one in rest) else None


def _canonical(above: str, below: str) -> str:
    above, below = above.lstrip("0") or "0", below.rstrip("0")
    return f"{above}.{below}" if below else above
