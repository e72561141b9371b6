"""National numbers of persons: social security, tax, identity, health.

Checks are python-stdnum's, whose modules name the authority of each number; where its own would ask
the clock (Belgium, Denmark, Norway, Sweden: nobody is born in the future) the check digits are
looked at here and the date by its form, so that a text reads the same on every day. Britain's
National Insurance number is not in the library; its form is that of HMRC's manual (NIM39110).

A number counts by itself where fewer than one in a hundred random numbers of its form pass, or
where nobody else writes numbers so (123-45-6789, 12345678Z, AB 12 34 56 C). All others need one of
their words near them, or as the key of the JSON object that holds them: every eleventh number of
nine digits is a Dutch BSN, and every tenth of twelve, parcels' included, an Aadhaar.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from stdnum import luhn, verhoeff
from stdnum.at import vnr
from stdnum.br import cpf
from stdnum.ca import sin
from stdnum.ch import ssn as ahv
from stdnum.de import idnr
from stdnum.es import dni, nie
from stdnum.fi import hetu
from stdnum.fr import nir
from stdnum.gb import nhs
from stdnum.in_ import pan
from stdnum.it import codicefiscale
from stdnum.nl import bsn
from stdnum.no import fodselsnummer
from stdnum.pl import pesel
from stdnum.us import itin, ssn

from turnstream.privacy.surroundings import told, words

Country = Literal[
    "at", "be", "br", "ca", "ch", "de", "dk", "es", "fi", "fr", "gb", "in", "it", "nl", "no", "pl",
    "se", "us",
]  # fmt: skip
COUNTRIES: Final[tuple[Country, ...]] = get_args(Country)
"""ISO 3166 codes of the countries whose numbers are known."""

_SEPARATOR: Final = re.compile(r"[ \n.\-]")

_DAY_MONTH: Final = "(?:0[1-9]|[12][0-9]|3[01])(?:0[1-9]|1[0-2])"
_MONTH_ANY_DAY: Final = "(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]|6[1-9]|[78][0-9]|9[01])"
"""Sweden adds 60 to the day in its coordination numbers."""


@dataclass(frozen=True, slots=True)
class _Form:
    """One way in which a country's number is written."""

    country: Country
    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool]
    """Asked without separators, in upper case."""
    words: frozenset[str]
    """Needed near it; empty where it counts by itself."""


def _form(
    country: Country, written: str, is_valid: Callable[[str], bool], needs: str = ""
) -> _Form:
    """A form as a regular expression, in which a space stands for a separator that may be absent.

    It is found wherever letters and digits begin: one that fails must not hide one that begins
    inside it. A number that goes on after a dash or dot is a longer one.
    """
    number = written.replace(" ", r"[ \n.\-]?")
    pattern = rf"(?<![A-Za-z0-9])(?<![0-9][.\-])(?=({number})(?![A-Za-z0-9]|[.\-][0-9]))"
    return _Form(country, re.compile(pattern, re.IGNORECASE), is_valid, words(needs))


def _always(_number: str) -> bool:
    return True


def _american(number: str) -> bool:
    return ssn.is_valid(number) or itin.is_valid(number)


def _belgian(number: str) -> bool:
    """Mod 97 of the first nine digits, with a 2 before them for those born from 2000 on."""
    first, check = number[:9], int(number[9:])
    return check in (97 - int(first) % 97, 97 - int("2" + first) % 97)


def _finnish(number: str) -> bool:
    """Its dash is one of the signs of the century, and no separator."""
    return hetu.is_valid(
        number if len(number) > len("ddmmyyzzzq") else f"{number[:6]}-{number[6:]}"
    )


def _indian(number: str) -> bool:
    """A Verhoeff check digit; the authority gives out no palindromes."""
    return number != number[::-1] and verhoeff.is_valid(number)


def _norwegian(number: str) -> bool:
    checks = fodselsnummer.calc_check_digit1(number), fodselsnummer.calc_check_digit2(number)
    return checks == (number[9], number[10])


def _spanish(number: str) -> bool:
    return dni.is_valid(number) or nie.is_valid(number)


def _swedish(number: str) -> bool:
    return luhn.is_valid(number.replace("+", "")[-10:])


_FORMS: Final = (
    _form("at", rf"[1-9][0-9]{{3}} {_DAY_MONTH}[0-9]{{2}}", vnr.is_valid),
    # Months of persons without a residence are raised by 20 or 40; unknown days are 00.
    _form(
        "be",
        r"[0-9]{2} (?:[024][0-9]|[135][0-2]) (?:[0-2][0-9]|3[01]) [0-9]{3} [0-9]{2}",
        _belgian,
    ),
    _form("br", r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", cpf.is_valid),
    _form("br", r"[0-9]{3} [0-9]{3} [0-9]{3} [0-9]{2}", cpf.is_valid, "cpf"),
    _form("ca", r"[0-9]{3} [0-9]{3} [0-9]{3}", sin.is_valid, "sin nas insurance assurance"),
    _form("ch", r"756 [0-9]{4} [0-9]{4} [0-9]{2}", ahv.is_valid),
    _form("de", r"[0-9]{2} [0-9]{3} [0-9]{3} [0-9]{3}", idnr.is_valid),
    _form("dk", rf"{_DAY_MONTH}[0-9]{{2}} [0-9]{{4}}", _always, "cpr personnummer"),
    _form("es", r"[0-9]{2} ?[0-9]{3} ?[0-9]{3} [A-Z]", _spanish),
    _form("es", r"[XYZ] [0-9]{7} [A-Z]", _spanish),
    _form("fi", rf"{_DAY_MONTH}[0-9]{{2}}[\-+A-FU-Y][0-9]{{3}}[0-9A-Y]", _finnish),
    _form(
        "fr",
        r"[1-478] [0-9]{2} [0-9]{2} (?:[0-9]{2}|2[AB]) [0-9]{3} [0-9]{3} [0-9]{2}",
        nir.is_valid,
    ),
    _form(
        "fr",
        r"[1-478] [0-9]{2} [0-9]{2} (?:[0-9]{2}|2[AB]) [0-9]{3} [0-9]{3}",
        _always,
        "nir insee sécu sécurité vitale",
    ),
    _form(
        "gb",
        r"(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] "
        r"[0-9]{2} [0-9]{2} [0-9]{2} [A-D]",
        _always,
    ),
    _form("gb", r"[0-9]{3} [0-9]{3} [0-9]{4}", nhs.is_valid, "nhs"),
    _form("in", r"[2-9][0-9]{3} [0-9]{4} [0-9]{4}", _indian, "aadhaar aadhar adhaar uidai"),
    _form("in", r"[A-Z]{3}P[A-Z][0-9]{4}[A-Z]", pan.is_valid),
    _form(
        "it",
        r"[A-Z]{3} [A-Z]{3} [0-9LMNP-V]{2}[A-EHLMPRST][0-9LMNP-V]{2} "
        r"[A-Z][0-9LMNP-V]{3} [A-Z]",
        codicefiscale.is_valid,
    ),
    _form("nl", r"[0-9]{3,4} [0-9]{2} [0-9]{3}", bsn.is_valid, "bsn burgerservicenummer sofi"),
    _form("no", r"[0-7][0-9]{5} [0-9]{5}", _norwegian),
    _form("pl", r"[0-9]{11}", pesel.is_valid, "pesel"),
    _form("se", rf"(?:18|19|20)?[0-9]{{2}}{_MONTH_ANY_DAY}[\-+]?[0-9]{{4}}", _swedish),
    _form("us", r"[0-9]{3}([\s\-])[0-9]{2}\2[0-9]{4}", _american),
    _form("us", r"[0-9]{9}", _american, "ssn social itin taxpayer"),
)


def national_numbers(
    text: str, countries: frozenset[Country], *, about: str = "", number: bool = False
) -> Iterator[tuple[int, int]]:
    """Where a reading has national numbers.

    Args:
        text: the reading.
        countries: whose numbers.
        about: the key that the text stands under.
        number: the text is a JSON number, which counts only where its key says what it is: times
            in seconds would pass for Swedish and Austrian numbers.
    """
    for form in _FORMS:
        if form.country not in countries or (number and not form.words):
            continue
        for match in form.pattern.finditer(text):
            start, end = match.span(1)
            if form.is_valid(_SEPARATOR.sub("", match.group(1)).upper()) and (
                not form.words or told(text, start, end, yes=form.words, about=about)
            ):
                yield start, end
