"""Telephone numbers, as Google's libphonenumber knows them (:mod:`phonenumbers`).

A number counts where it is a valid one of its country (leniency VALID): with `+` and the country's
code, or as it is written in the default region. Without a default region only the former. Among
other numbers - a post code, the rows of a table - it must be grouped as its country groups it
(leniency STRICT_GROUPING), else any table has some. A line break is a space.

Two rules are added, or no order number would be safe: in the United States every third number of
ten digits is a valid telephone number, in Denmark most of eight. Digits without `+` and without any
separator count not where the words around them say that they are an order's, an invoice's, an
account's; and below nine digits only where the words say that they are a telephone number. What has
the form of a date is none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from phonenumbers import (
    COUNTRY_CODE_TO_REGION_CODE,
    SUPPORTED_REGIONS,
    Leniency,
    PhoneMetadata,
    PhoneNumberMatcher,
)

from turnstream.privacy.surroundings import IDENTIFIERS, told, words

_SHORTEST: Final = 7
"""Digits of the shortest number that counts. The library knows shorter ones, of short codes and of
small islands; asking it about every order number of six digits takes longer than all else."""

_CERTAIN: Final = 9
"""Digits from which a bare number counts without a word: dates and most order numbers have less."""

_DIGITS: Final = range(_SHORTEST, 19)
"""Digits of a number: at most 15 of E.164 and those of an international prefix."""

_FRUITLESS: Final = 300
"""Times that parts of a table may be asked about in vain. Each takes a tenth of a millisecond, so a
long message of digits would hold up every other conversation."""

_TRIES: Final = 20_000
"""Times that parts of a table may be weighed before asking: a tenth of a second."""

_LONGEST: Final = 60
"""Characters of a number with its separators. The library copies what it is given many times."""

_RUN: Final = re.compile(r"[0-9 ().\-/~\[\]+\n]+")
_TOKEN: Final = re.compile(r"[^ \n]+")
_NO_DIGIT: Final = re.compile(r"[^0-9]+")
_DATE: Final = re.compile(
    r"(?:[0-3]?[0-9]([.\-/ ])[01]?[0-9]\1|[01]?[0-9]([.\-/ ])[0-3]?[0-9]\2)[12][0-9]{3}"
    r"|[12][0-9]{3}([.\-/ ])[01]?[0-9]\3[0-3]?[0-9]"
)
_UUID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)

_PHONE: Final = words(
    """
    phone telephone tel mobile cell cellphone phonenumber call ring reach text sms whatsapp contact
    fax dial callback
    téléphone telephone portable fixe appeler appelez appelle rappeler rappelez joindre joignable
    contacter contactez
    teléfono móvil celular llamar llame llámame
    telefon telefonnummer handy handynummer rufnummer anrufen mobilnummer
    telefono cellulare chiamare chiamatemi
    telefoon telefoonnummer mobiel bellen gsm
    telefone telemóvel ligar
    komórka zadzwoń
    """
)


class _Token(NamedTuple):
    """Digits and separators without a space, of a run."""

    start: int
    end: int
    digits: str


@dataclass(slots=True)
class _Patience:
    """How often the library was asked in vain about one text, and how often that was weighed."""

    fruitless: int = 0
    tries: int = 0

    @property
    def is_over(self) -> bool:
        """Whether only numbers without a space are still looked for among others."""
        return self.fruitless >= _FRUITLESS or self.tries >= _TRIES


class _Nationals(NamedTuple):
    """How numbers are written within a region."""

    number: re.Pattern[str]
    prefix: str
    """Before a number that is called from within, as 0."""
    abroad: re.Pattern[str]
    """Before the code of another country, as 00."""


def phones(
    text: str, region: str | None, *, about: str = "", number: bool = False
) -> Iterator[tuple[int, int]]:
    """Where a reading has telephone numbers.

    Args:
        text: the reading.
        region: ISO 3166 code, as FR, of numbers without a country code.
        about: the key that the text stands under.
        number: the text is a JSON number, which counts only where its key says what it is.
    """
    if "-" in text:
        text = _UUID.sub(lambda match: "x" * len(match.group()), text)
    patience = _Patience()
    for run in _RUN.finditer(text):
        for start, end in _in_run(text, run.start(), run.end(), region, patience):
            if _counts(text, start, end, about=about, number=number):
                yield start, end


def _in_run(
    text: str, start: int, end: int, region: str | None, patience: _Patience
) -> Iterator[tuple[int, int]]:
    """Numbers in a run of digits and separators: all of it, or between the spaces in it."""
    if region is None and "+" not in text[start:end]:
        return
    pieces = [
        _Token(*one.span(), _digits(one.group())) for one in _TOKEN.finditer(text, start, end)
    ]
    tokens = [one for one in pieces if one.digits]
    if not tokens:
        return
    whole = tokens[-1].end - tokens[0].start <= _LONGEST
    if whole and sum(len(one.digits) for one in tokens) in _DIGITS:
        found = list(_asked(text, tokens[0].start, tokens[-1].end, region, Leniency.VALID))
        if found:
            yield from found
            return
    after = 0
    for first, token in enumerate(tokens):
        if first < after:
            continue
        stop = first + 1 if patience.is_over else len(tokens)
        for last in reversed(_ends(tokens, first, stop)):
            patience.tries += 1
            digits = "".join(one.digits for one in tokens[first : last + 1])
            if not _may_be_number(token, text, digits, region):
                continue
            span = (token.start, tokens[last].end)
            found = list(_asked(text, *span, region, Leniency.STRICT_GROUPING))
            if found and _digits(text[found[0][0] : found[0][1]]) == digits:
                yield found[0]
                after = last + 1
                break
            patience.fruitless += 1


def _ends(tokens: list[_Token], first: int, stop: int) -> list[int]:
    """The last tokens, before a stop, of what may be one number from a first token on."""
    ends: list[int] = []
    size = 0
    for last in range(first, stop):
        size += len(tokens[last].digits)
        if size >= _DIGITS.stop or tokens[last].end - tokens[first].start > _LONGEST:
            break
        if size in _DIGITS:
            ends.append(last)
    return ends


def _may_be_number(token: _Token, text: str, digits: str, region: str | None) -> bool:
    """Whether digits have the form of a number: the library takes long to say no."""
    if "+" in text[token.start : token.end]:
        return _has_country_code(digits)
    if region is None:
        return False
    national = _nationals(region)
    abroad = national.abroad.match(digits)
    if abroad is not None and _has_country_code(digits[abroad.end() :]):
        return True
    bare = digits.removeprefix(national.prefix)
    return any(national.number.fullmatch(one) is not None for one in {digits, bare})


def _has_country_code(digits: str) -> bool:
    for size in range(1, 4):
        regions = COUNTRY_CODE_TO_REGION_CODE.get(int(digits[:size] or 0))
        if regions is not None:
            return _nationals(regions[0]).number.match(digits, size) is not None
    return False


@cache
def _nationals(region: str) -> _Nationals:
    """How numbers of a region are written; there are 250 regions. Others are written anyhow."""
    known = PhoneMetadata.metadata_for_region(region)
    general = known.general_desc if known is not None else None
    pattern = general.national_number_pattern if general is not None else None
    return _Nationals(
        number=re.compile(pattern or "[0-9]{4}"),
        prefix=(known.national_prefix if known is not None else None) or "",
        abroad=re.compile((known.international_prefix if known is not None else None) or "00"),
    )


def _asked(
    text: str, start: int, end: int, region: str | None, leniency: int
) -> Iterator[tuple[int, int]]:
    """What the library finds in a part of a reading, seeing what is attached to it."""
    low, high = max(0, start - 1), end + 1
    if text[end : end + 1] == ":":
        high += 2  # minutes, which make of a date and an hour a time
    for match in PhoneNumberMatcher(text[low:high].replace("\n", " "), region, leniency=leniency):
        yield low + match.start, low + match.end


def _digits(text: str) -> str:
    return _NO_DIGIT.sub("", text)


def _counts(text: str, start: int, end: int, *, about: str, number: bool) -> bool:
    written = text[start:end]
    digits = len(_digits(written))
    if digits < _SHORTEST or _DATE.fullmatch(written):
        return False
    if not written.isdigit():
        return True
    says = told(text, start, end, yes=_PHONE, no=IDENTIFIERS, about=about)
    return says is True or (says is None and digits >= _CERTAIN and not number)


def region_of(locale: str | None) -> str | None:
    """The region of a language tag (BCP 47), as CA of fr-CA; None where it names none we know."""
    for part in (locale or "").replace("_", "-").split("-")[1:]:
        if len(part) == 1:  # an extension begins, whose parts mean something else
            return None
        if part.upper() in SUPPORTED_REGIONS:
            return part.upper()
    return None


def is_region(code: str) -> bool:
    """Whether numbers of a region are known."""
    return code in SUPPORTED_REGIONS
