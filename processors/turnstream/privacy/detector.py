"""Finds personal data in texts and takes it out."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from turnstream.privacy.cards import cards
from turnstream.privacy.emails import emails
from turnstream.privacy.ibans import ibans
from turnstream.privacy.kinds import KINDS, MARKER, MARKERS, Finding, Kind, Redaction, joined
from turnstream.privacy.names import Names
from turnstream.privacy.national_numbers import COUNTRIES, Country, national_numbers
from turnstream.privacy.phones import is_region, phones
from turnstream.privacy.reading import plain

_PASSES: Final = 4
"""Times that the rest of a text is looked at again. What is left of a text may read differently
without what was removed; twice is the usual, and only a text made for it needs more."""

_LARGEST_NUMBER: Final = 10**19
"""No number of a person or card has more digits; Python refuses to write numbers of thousands."""

_FEWEST_DIGITS: Final = 4
"""Digits of the number that has fewest, India's PAN; most messages have fewer and cost nothing."""

_WORTH_READING: Final = re.compile(r"[@0-9]|[^\x00-\x7f]")
"""Without one of these a text has nothing but names."""


class Detector:
    """Finds the personal data of one session in its texts.

    It holds the session's names, so it is as private as they are: it has no readable form.
    """

    __slots__ = ("_countries", "_kinds", "_names", "_region")

    def __init__(
        self,
        kinds: Iterable[Kind] = KINDS,
        *,
        names_from_session: Iterable[str] = (),
        default_region: str | None = None,
        countries: Iterable[Country] = COUNTRIES,
    ) -> None:
        """Prepare a detector; cheap enough to be made for each conversation.

        Args:
            kinds: what is looked for.
            names_from_session: names of persons as the session has them, in any order of parts.
            default_region: ISO 3166 code, as FR, of telephone numbers without a country code.
            countries: ISO 3166 codes in lower case, whose national numbers are looked for.

        Raises:
            ValueError: a kind, region or country that is not known.
        """
        self._kinds = frozenset(kinds)
        self._countries = frozenset(countries)
        self._region = default_region
        for what, unknown in (
            ("kinds", self._kinds.difference(KINDS)),
            ("countries", self._countries.difference(COUNTRIES)),
        ):
            if unknown:
                raise ValueError(f"unknown {what} of personal data: {', '.join(sorted(unknown))}")
        if default_region is not None and not is_region(default_region):
            raise ValueError(f"default_region: no telephone numbers known of {default_region!r}")
        self._names = Names(names_from_session if "name" in self._kinds else ())

    def find(self, text: str, *, about: str = "") -> tuple[Finding, ...]:
        """Where a text has personal data, in order; no two findings overlap.

        Markers are passed over: a text without findings has none after it was redacted, either.

        Args:
            text: any text, lone surrogates included.
            about: what the text is about where it does not say so itself: the key that it stands
                under, or the question that it replies to.
        """
        return self._found(text, about, number=False)

    def redacted(self, text: str, *, about: str = "") -> Redaction:
        """A text with a marker in the place of each finding.

        Redacting it again changes nothing, and nothing of what was removed is in it.
        """
        return _without(text, self.find(text, about=about))

    def in_number(self, number: int, *, about: str = "") -> Kind | None:
        """What personal data a JSON number is.

        A card's number; a telephone number or a national number only where `about` says so, as any
        number of ten digits, a time in seconds for one, might be one.
        """
        if abs(number) >= _LARGEST_NUMBER:
            return None
        found = self._found(str(abs(number)), about, number=True)
        return found[0].kind if found else None

    def _found(self, text: str, about: str, *, number: bool) -> tuple[Finding, ...]:
        found: list[Finding] = []
        pieces = _between(0, len(text), (match.span() for match in MARKER.finditer(text)))
        for _ in range(_PASSES):
            rest: list[tuple[int, int]] = []
            for start, end in pieces:
                here = self._scan(text[start:end], start, about, number=number)
                found += here
                if here:
                    rest += _between(start, end, ((one.start, one.end) for one in here))
            pieces = rest
            if not pieces:
                break
        for start, end in pieces:
            here = self._scan(text[start:end], start, about, number=number)
            if here:
                # Made to be peeled layer by layer; taking all of it ends that.
                found.append(Finding(here[0].kind, start, end))
        return tuple(sorted(found, key=lambda one: one.start))

    def _scan(self, text: str, offset: int, about: str, *, number: bool) -> list[Finding]:
        """Findings of one pass over a text without markers, moved by its place in the whole."""
        found: list[Finding] = []
        if self._names:
            found += [Finding("name", *span) for span in self._names.find(text)]
        if _WORTH_READING.search(text) is not None:
            reading = plain(text)
            found += [
                Finding(kind, *reading.span(start, end))
                for kind, start, end in self._by_rule(reading.text, about, number=number)
            ]
        return [Finding(one.kind, one.start + offset, one.end + offset) for one in joined(found)]

    def _by_rule(self, text: str, about: str, *, number: bool) -> Iterator[tuple[Kind, int, int]]:
        if "email" in self._kinds and "@" in text:
            yield from (("email", *span) for span in emails(text))
        if sum(map(text.count, "0123456789")) < _FEWEST_DIGITS:
            return
        if "iban" in self._kinds:
            yield from (("iban", *span) for span in ibans(text))
        if "card" in self._kinds:
            yield from (("card", *span) for span in cards(text))
        if "national_number" in self._kinds:
            spans = national_numbers(text, self._countries, about=about, number=number)
            yield from (("national_number", *span) for span in spans)
        if "phone" in self._kinds:
            spans = phones(text, self._region, about=about, number=number)
            yield from (("phone", *span) for span in spans)


def _between(start: int, end: int, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What lies between spans that are in order; nothing empty."""
    rest: list[tuple[int, int]] = []
    for first, last in spans:
        if first > start:
            rest.append((start, first))
        start = last
    if end > start:
        rest.append((start, end))
    return rest


def _without(text: str, findings: tuple[Finding, ...]) -> Redaction:
    if not findings:
        return Redaction(text, ())
    parts: list[str] = []
    start = 0
    for one in findings:
        parts += (text[start : one.start], MARKERS[one.kind])
        start = one.end
    return Redaction("".join([*parts, text[start:]]), findings)
