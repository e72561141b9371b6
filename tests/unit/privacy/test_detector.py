"""Texts without personal data: markers, overlaps, repetition, length."""

import sys
from types import FrameType
from typing import cast

import pytest

from turnstream.privacy import KINDS, MARKERS, Detector, Finding, Kind
from turnstream.privacy import detector as detector_module
from turnstream.privacy.kinds import joined

_ALL = Detector(names_from_session=["John Smith"], default_region="US")


def test_a_text_loses_all_kinds_at_once() -> None:
    """Each finding is replaced by the marker of its kind, and is said with its place."""
    text = "John Smith, john@example.com, (415) 555-2671, 4111 1111 1111 1111, 536-90-4399"

    redaction = _ALL.redacted(text)

    assert "[name], [email], [phone], [card], [national_number]" == redaction.text
    assert ["John Smith", "john@example.com", "(415) 555-2671"] == [
        text[one.start : one.end] for one in redaction.findings[:3]
    ]


def test_nothing_is_found_in_a_text_without_personal_data() -> None:
    """The very same text comes back."""
    text = "Where is my order 12345? It was due on 2024-05-06 at 10:30, € 1,299.99."

    assert (text, ()) == tuple(_ALL.redacted(text))
    assert text is _ALL.redacted(text).text


def test_only_the_kinds_asked_for_are_found() -> None:
    """Each kind by itself finds its own."""
    text = "john@example.com +14155552671 4111111111111111 DE89370400440532013000 536-90-4399 John"

    for kind in KINDS:
        found = Detector([kind], names_from_session=["John"]).find(text)
        assert {kind} == {one.kind for one in found}


def test_markers_are_no_findings() -> None:
    """Neither are the words in them, where somebody is called so."""
    detector = Detector(names_from_session=["Name Email", "Card Phone"])
    text = " ".join(MARKERS.values())

    assert text == detector.redacted(text).text
    assert "[name] [card]" == detector.redacted("Phone [card]").text


def test_no_finding_reaches_across_a_marker() -> None:
    """What stands on both sides of one was never one number."""
    assert "4111 1111[card]1111 1111" == _ALL.redacted("4111 1111[card]1111 1111").text


def test_findings_that_overlap_are_one() -> None:
    """Of the kind of the longest; where equally long, of the kind that comes first."""
    phone, card, iban = Finding("phone", 5, 15), Finding("card", 0, 8), Finding("iban", 0, 8)
    later = Finding("email", 15, 20)

    assert [Finding("phone", 0, 15), later] == joined([later, phone, card])
    assert [Finding("iban", 0, 8)] == joined([card, iban])
    assert [Finding("email", 0, 9)] == joined([Finding("email", 0, 9), Finding("name", 0, 4)])


def test_what_is_left_is_looked_at_again() -> None:
    """Without a name, the words before it do not speak for the number after it any more."""
    text = "order John 4155552671"

    assert "order [name] [phone]" == _ALL.redacted(text).text
    assert "order 4155552671" == _ALL.redacted("order 4155552671").text


def test_a_text_made_to_be_peeled_goes_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last pass, a piece in which something is still found is taken out."""
    monkeypatch.setattr(detector_module, "_PASSES", 1)

    assert "order [name][phone]" == _ALL.redacted("order John 4155552671").text


@pytest.mark.parametrize(
    ("number", "about", "kind"),
    [
        (4111111111111111, "", "card"),
        (-4111111111111111, "", "card"),
        (4155552671, "", None),
        (4155552671, "order_id", None),
        (4155552671, "mobilePhone", "phone"),
        (536904399, "customer_ssn", "national_number"),
        (536904399, "", None),
        (1764000000, "created_at", None),
        (10**30, "card", None),
        (0, "phone", None),
    ],
)
def test_a_number_needs_more_than_its_digits(number: int, about: str, kind: Kind | None) -> None:
    """Cards have check digits and prefixes; all else needs a key that says what it is."""
    assert kind == _ALL.in_number(number, about=about)


def test_a_number_of_thousands_of_digits_is_nobodys() -> None:
    """Python refuses to write it, and need not."""
    assert _ALL.in_number(10**5000, about="phone") is None


def test_what_a_text_is_about_helps_where_it_does_not_say() -> None:
    """The text's own words come first."""
    assert "4155552671" == _ALL.redacted("4155552671", about="order number").text
    assert "call [phone]" == _ALL.redacted("call 4155552671", about="order number").text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ["email", "shoe_size"]}, "unknown kinds of personal data: shoe_size"),
        ({"countries": ["fr", "xx"]}, "unknown countries of personal data: xx"),
        ({"default_region": "fr"}, "no telephone numbers known of 'fr'"),
    ],
)
def test_what_is_not_known_is_refused(arguments: dict[str, object], message: str) -> None:
    """A misspelt kind would protect nothing."""
    with pytest.raises(ValueError, match=message):
        Detector(**arguments)  # type: ignore[arg-type]


_PATTERNS = [
    "a@",
    "a@b.co@",
    '"@',
    "a.",
    "1 ",
    "1-",
    "+1 ",
    "((((",
    "12 34 56 7 ",
    "4111 1111 1111 1111 ",
    "AA11 ",
    "DE89 3704 ",
    "john smith ",
    "j s ",
    "\u200b4",
    "[card]4",
    "20240102 08 ",
]


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_four_times_the_text_is_at_most_five_times_the_work(pattern: str) -> None:
    """Work is counted in calls; what is asked of the library less often in long texts is less."""
    short, long = (_calls(pattern * (size // len(pattern))) for size in (2_500, 10_000))

    assert long <= 5 * short


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_a_long_text_is_read_to_its_end(pattern: str) -> None:
    """A pattern that takes the square of the length would not come back; 100,000 characters do."""
    detector = Detector(set(KINDS) - {"phone"}, names_from_session=["John Smith"])
    text = pattern * (100_000 // len(pattern)) + "\nthe end john@example.com"

    redacted = detector.redacted(text).text

    assert redacted.endswith("the end [email]")


def test_a_megabyte_of_words_is_left_as_it_is() -> None:
    """And is looked through all the same."""
    text = "where is my parcel, please? " * 37_500

    assert (text, ()) == tuple(_ALL.redacted(text))
    assert text + "[email]" == _ALL.redacted(text + "john@example.com").text


def _calls(text: str) -> int:
    """Calls of functions, built-in ones included, that it takes to look through a text."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        _ALL.find(text)
    finally:
        sys.setprofile(cast("None", before))
    return count
