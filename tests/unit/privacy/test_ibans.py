"""International bank account numbers."""

import pytest

from turnstream.privacy import Detector, Finding

_DETECTOR = Detector(["iban"])


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("DE89370400440532013000", "[iban]"),
        ("de89 3704 0044 0532 0130 00 danke", "[iban] danke"),
        ("FR76-3000-6000-0112-3456-7890-189.", "[iban]."),
        ("IBAN:GB82WEST12345698765432", "IBAN:[iban]"),
        ("IBANGB82WEST12345698765432", "IBAN[iban]"),
        ("GB82 WEST 1234\n5698 7654 32", "[iban]"),
        ("NO93 8601 1117 947 is mine", "[iban] is mine"),
        ("MT84MALT011000012345MTLCAST001S", "[iban]"),
        ("\uff24\uff25\uff18\uff19370400440532013000", "[iban]"),
        ("DE89370400440532013000 GB82WEST12345698765432", "[iban] [iban]"),
    ],
)
def test_numbers_are_taken_out(text: str, redacted: str) -> None:
    """Spaces, dashes, breaks and case do not matter, and the next word stays."""
    assert redacted == _DETECTOR.redacted(text).text


@pytest.mark.parametrize(
    "text",
    [
        "DE88370400440532013000",
        "XX89370400440532013000",
        "DE89 3704",
        "ADE89370400440532013000",
        "DE89370400440532013000X",
        "AB12 CD34 EF56 GH78 IJ90 KL12 MN34",
        "at 12 o'clock in room 1234 of house 5678",
    ],
)
def test_other_codes_stay(text: str) -> None:
    """Wrong check digits, no country, too short, part of a longer code: no IBAN."""
    assert text == _DETECTOR.redacted(text).text


def test_no_part_of_an_iban_passes_for_something_else() -> None:
    """Its digits may be a telephone or national number as well; they are one finding."""
    detector = Detector(default_region="DE")

    assert (Finding("iban", 3, 25),) == detector.find("an DE89370400440532013000")
    assert "an [iban]" == detector.redacted("an DE89 3704 0044 0532 0130 00").text
