"""Tests of turnstream.core.written_numbers: a number is read in one way or not at all."""

import pytest

from turnstream.core.written_numbers import numbers_in, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", ["12"]),
        ("12.50", ["12.5"]),
        ("12,50", ["12.5"]),
        ("0.125", ["0.125"]),
        ("0,500", ["0.5"]),
        ("1234,567", ["1234.567"]),
        ("007", ["7"]),
        ("1,000", []),
        ("1.000", []),
        ("999,999", []),
        ("1,234.56", ["1234.56"]),
        ("1.234,56", ["1234.56"]),
        ("1.234.567,8", ["1234567.8"]),
        ("1,234.567", ["1234.567"]),
        ("1,000,000", ["1000000"]),
        ("1.000.000", ["1000000"]),
        ("0,000,000", []),
        ("1,23,456", []),
        ("1,234,56", []),
        ("1,234.567.8", []),
        ("1,234'567.8", []),
        ("1'000", ["1000"]),
        ("1’000,50", ["1000.5"]),
        ("1'00", []),
        ("5'10", []),
        ("1\xa0234", ["1234"]),
        ("1\u202f234,50", ["1234.5"]),
        ("1\u2009234.5", ["1234.5"]),
        ("1 000", ["1000"]),
        ("1 000 200", ["1000200"]),
        ("1 000,50", ["1000.5"]),
        ("2 500", []),
        ("2 500,50", []),
        ("2026 100", ["2026", "100"]),
        ("0 500", ["0", "500"]),
        ("1,5 200", ["1.5", "200"]),
        ("5 10", ["5", "10"]),
        ("١٢٣", ["123"]),
        ("١٬٢٣٤٫٥", ["1234.5"]),
        ("١٫٥٠٠", ["1.5"]),
        ("١٫٥٠٠٫٥", []),
        ("５００", ["500"]),
        ("１，５", ["1.5"]),
        ("1٢", []),
        ("-5", ["-5"]),
        ("−5", ["-5"]),
        ("+5", ["5"]),
        ("–5", []),
        ("12-", []),
        ("5-10", []),
        ("5–10", []),
        ("5 – 10", ["5", "10"]),
        ("€5", ["5"]),
        ("5€", ["5"]),
        ("€-5", ["-5"]),
        ("-€5", []),
        ("12€50", []),
        ("12,-", ["12"]),
        ("(12.50)", ["12.5"]),
        ("amount:12.50", ["12.5"]),
        ("5.", ["5"]),
        ("5, 6", ["5", "6"]),
        (".5", []),
        ("1,2,3", []),
        ("1.2.3", []),
        ("1/2", []),
        ("12:30", []),
        ("2026-01-31", []),
        ("A-5", []),
        ("v5", []),
        ("3kg", []),
        ("1e5", []),
        ("5²", []),
        ("1½", []),
        ("1\u200b000", ["1000"]),
        ("9" * 30, ["9" * 30]),
        ("9" * 31, []),
        ("9" * 100_000, []),
    ],
)
def test_numbers_in_texts(text: str, expected: list[str]) -> None:
    """What could be another number is none."""
    found = [one.text for one in numbers_in(f"pay {text} now")]
    assert expected == [one for one in found if one is not None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 500 €", ["2500"]),
        ("€2 500.", ["2500"]),
        ("2 500,50", ["2500.5"]),
        ("-2 500", ["-2500"]),
        ("2 500 for 3", [None, "3"]),
        ("2 500 euros", [None]),
        ("order 12 500 euros", [None]),
        ("1,000", [None]),
        ("1,000 for 3", [None, "3"]),
        ("12 345 67", [None, "67"]),
        ("12.03.2026: 5", [None, "5"]),
        ("1/2 of 80", ["80", None]),
        ("½ of 80", ["80", None]),
        ("1½ or 80", ["80", None]),
        ("5k for 2", ["2", None]),
        ("5m for 2", ["2", None]),
        ("1e5 for 2", ["2", None]),
        (".5 for 2", ["2", None]),
        ("12- for 2", ["2", None]),
        ("1·5 for 2", ["2", None]),
        ("5-10 or 2", ["2", None]),
        ("2 for the 3kg bag of A-5 and v5", ["2"]),
        ("2 on 2026-01-31 at 12:30", ["2"]),
    ],
)
def test_the_reply_to_a_question_for_a_number(text: str, expected: list[str | None]) -> None:
    """Groups with a plain space are one number if there is nothing else; no number goes missing."""
    assert expected == [one.text for one in numbers_in(text, asked=True)]


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        *(
            "5 million",
            "5 Millionen",
            "5 MIO",
            "3,5 Mio",
            "5 thousand",
            "5 hundred",
            "5 k",
            "5 mil",
        ),
        *("5 cents", "9 1/2", "9 ½", "minus 5", "Minus €5", "moins 5", "− 5", "- 5"),
        "1,000",
    ],
)
def test_what_stands_beside_a_number_counts(text: str, *, asked: bool) -> None:
    """A number with a word that makes another one of it is not the number alone."""
    assert {None} == {one.text for one in numbers_in(text, asked=asked)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 - 10", ["5", "10"]),
        ("my bag - 5 euros", ["5"]),
        ("5 milk", ["5"]),
        ("terminus 5", ["5"]),
        ("minus 1,5 200", [None, "200"]),
        ("5, 6 million", ["5", None]),
    ],
)
def test_what_stands_beside_a_number_and_says_nothing(
    text: str, expected: list[str | None]
) -> None:
    """Only whole words count, and for the nearest number."""
    assert expected == [one.text for one in numbers_in(text)]


@pytest.mark.parametrize("text", ["5%", "5 %", "5\xa0%", "5‰", "5٪", "5 percent", "5 Prozent"])
def test_percentages_are_marked(text: str) -> None:
    """Their reader must know what they are a part of."""
    assert [("5", True)] == [(one.text, one.percent) for one in numbers_in(text)]


@pytest.mark.parametrize(
    ("wanted", "text", "expected"),
    [
        ("12", "12.50", False),
        ("12", "12, please", True),
        ("1", "1,000", False),
        ("500", "2 500", False),
        ("2", "2 500", False),
        ("10", "5 10", True),
        ("5", "5%", False),
        ("5", "5 percent", False),
        ("5", "5 million", False),
        ("5", "5 1/2", False),
        ("5", "minus 5", False),
        ("5", "5 minutes", True),
        ("1001", "A-1001", False),
        ("A-1", "A-1.5", False),
        ("A-1", "Where is A-1?", True),
        ("12.50", "-12.50", False),
        ("red", "red.", True),
        ("red", "bored", False),
    ],
)
def test_whole_words(wanted: str, text: str, *, expected: bool) -> None:
    """No text is found inside a word, and no digits inside a longer number."""
    assert expected == bool(whole(wanted).search(text))
