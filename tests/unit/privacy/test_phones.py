"""Telephone numbers of several countries, and the order numbers that look like them."""

import pytest

from turnstream.privacy import Detector, is_region, region_of


@pytest.mark.parametrize(
    ("region", "text", "redacted"),
    [
        (None, "+33 6 12 34 56 78", "[phone]"),
        (None, "12345678 +33 6 12 34 56 78", "12345678 [phone]"),
        ("US", "(a) call (b) 4155552671", "(a) call (b) [phone]"),
        (None, "tel:+14155552671;", "tel:[phone];"),
        ("US", "call (415) 555-2671 now", "call [phone] now"),
        ("US", "415.555.2671", "[phone]"),
        ("US", "4155552671", "[phone]"),
        (
            "US",
            "my order is late. My number is 4155552671",
            "my order is late. My number is [phone]",
        ),
        ("US", "order 77: call 4155552671", "order 77: call [phone]"),
        ("US", "4155552671 is my cell", "[phone] is my cell"),
        ("US", "order 415-555-2671", "order [phone]"),
        ("FR", "06 12 34 56 78 merci", "[phone] merci"),
        ("FR", "06 12 34\n56 78", "[phone]"),
        ("FR", "0612345678", "[phone]"),
        ("FR", "\uff10\uff16 12 34 56 78", "[phone]"),
        ("FR", "06\u200b12\u200b34\u200b56\u200b78", "[phone]"),
        ("DE", "0049 30 123456 oder 030/123456", "[phone] oder [phone]"),
        ("GB", "+44 (0)20 7946 0958", "[phone]"),
        ("DK", "45 12 34 56", "[phone]"),
        ("DK", "ring 45123456", "ring [phone]"),
        ("IL", "הטלפון שלי 050-234-5678 תודה", "הטלפון שלי [phone] תודה"),
        ("FR", "06 12 34 56 78\n75001 Paris", "[phone]\n75001 Paris"),
        ("FR", "2 +33 6 12 34 56 78 75001 3", "2 [phone] 75001 3"),
        ("US", "3 0 415-555-2671 02134", "3 0 [phone] 02134"),
        ("US", "4155552671 4155552672", "[phone] [phone]"),
        ("US", "011 44 20 7946 0958 12345678", "[phone] 12345678"),
        ("EG", "٠١٠٠١٢٣٤٥٦٧", "[phone]"),
    ],
)
def test_numbers_are_taken_out(region: str | None, text: str, redacted: str) -> None:
    """A valid number of the region, or any with its country code."""
    assert redacted == Detector(["phone"], default_region=region).redacted(text).text


@pytest.mark.parametrize(
    ("region", "text"),
    [
        (None, "415-555-2671"),
        ("FR", "415-555-2671"),
        ("US", "order 4155552671"),
        ("US", "4155552671 is the order number"),
        ("US", "tracking no. 4155552671"),
        ("US", "https://shop.example/orders/4155552671"),
        ("FR", "commande n° 0612345678"),
        ("DE", "Bestellnummer: 030123456"),
        ("DK", "45123456"),
        ("DK", "31.12.2024"),
        ("DK", "2024-12-31 10:20"),
        ("US", "A4155552671"),
        ("GB", "550e8400-e29b-41d4-a716-446655440000"),
        ("US", "1717171717"),
        ("US", "$1,415,555,267.10"),
        ("US", "911"),
        ("US", "12 +999 1234567 12345678901234"),
        ("US", "4155552671234567890"),
        ("US", "12 41 55 55 26 71 33 41 55 55 26 71"),
        ("FR", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"),
    ],
)
def test_other_numbers_stay(region: str | None, text: str) -> None:
    """Numbers of shops, dates, identifiers, times, and numbers of other regions."""
    assert text == Detector(["phone"], default_region=region).redacted(text).text


def test_a_number_in_a_long_table_is_found_wherever_it_stands() -> None:
    """The library reads twenty groups at a time and would lose the one between two readings."""
    detector = Detector(["phone"], default_region="US")

    for numbers in range(12, 45):
        text = "12 " * numbers + "415-555-2671" + " 12" * 30
        assert "12 " * numbers + "[phone]" + " 12" * 30 == detector.redacted(text).text


def test_a_table_without_end_does_not_hide_what_is_written_in_one_piece() -> None:
    """The library is asked about parts of it so often and no more; the rest is still looked at."""
    detector = Detector(["phone"], default_region="US")
    table = "41 55 55 26 71 " * 400

    found = detector.redacted(f"{table}4155552671 {table}. 415 555 2672").text

    assert f"{table}[phone] {table}. 415 555 2672" == found
    assert f"{table}x [phone]" == detector.redacted(f"{table}x 415 555 2672").text


@pytest.mark.parametrize(
    ("locale", "region"),
    [
        ("fr-CA", "CA"),
        ("fr_FR", "FR"),
        ("zh-Hant-TW", "TW"),
        ("en", None),
        (None, None),
        ("en-u-ca-gregory", None),
        ("en-XX", None),
    ],
)
def test_a_locale_names_its_region(locale: str | None, region: str | None) -> None:
    """The region of a tag, and none where it has none."""
    assert region == region_of(locale)


def test_regions_are_known_by_their_code() -> None:
    """In capitals, as ISO 3166 writes them."""
    assert (True, False, False) == (is_region("FR"), is_region("fr"), is_region("ZZ"))
