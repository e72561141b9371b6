"""National numbers: which count by themselves, and which need a word."""

import random
from typing import Final

import pytest

from turnstream.privacy import COUNTRIES, Country, Detector

_ALONE: Final = [
    ("at", "1237 010180"),
    ("be", "85.07.30-033 28"),
    ("be", "85073003328"),
    ("be", "17 07 30 033 84"),
    ("br", "390.533.447-05"),
    ("ch", "756.9217.0769.85"),
    ("de", "36 574 261 809"),
    ("de", "36574261809"),
    ("es", "12345678Z"),
    ("es", "54.362.315-k"),
    ("es", "X-2482300-W"),
    ("fi", "131052-308T"),
    ("fi", "131052A308T"),
    ("fr", "2 95 10 99 126 111 93"),
    ("fr", "1850578006084 91"),
    ("fr", "1 85 05 2A 006 084 35"),
    ("gb", "AB 12 34 56 C"),
    ("gb", "ab123456c"),
    ("in", "ACUPA7085R"),
    ("it", "RCCMNL83S18D969H"),
    ("it", "RCC MNL 83S18 D969H"),
    ("no", "151086 95088"),
    ("se", "880320-0016"),
    ("se", "19880320-0016"),
    ("se", "8803200016"),
    ("us", "536-90-4399"),
    ("us", "536 90 4399"),
    ("us", "912-90-3456"),
]

_WITH_WORD: Final = [
    ("br", "39053344705", "cpf"),
    ("ca", "123-456-782", "social insurance number"),
    ("dk", "211062-5629", "CPR"),
    ("fr", "2 95 10 99 126 111", "sécurité sociale"),
    ("gb", "943 476 5870", "NHS"),
    ("in", "2341 2341 2346", "Aadhaar"),
    ("nl", "1112.22.333", "BSN"),
    ("pl", "44051401359", "PESEL"),
    ("us", "536904399", "social security"),
]


@pytest.mark.parametrize(("country", "number"), _ALONE)
def test_a_form_of_its_own_needs_no_word(country: Country, number: str) -> None:
    """It is found by itself, in its country's list only."""
    others = Detector(["national_number"], countries=set(COUNTRIES) - {country})

    assert "it is [national_number], ok" == _redacted(f"it is {number}, ok", country)
    assert f"it is {number}, ok" == others.redacted(f"it is {number}, ok").text


@pytest.mark.parametrize(("country", "number", "word"), _WITH_WORD)
def test_a_form_of_many_needs_its_word(country: Country, number: str, word: str) -> None:
    """It is found where its word stands before or after it, or is its key, and not else."""
    detector = Detector(["national_number"], countries=[country])

    assert f"my {word} is [national_number]" == _redacted(f"my {word} is {number}", country)
    assert f"[national_number] is my {word}" == _redacted(f"{number} is my {word}", country)
    assert "[national_number]" == detector.redacted(number, about=word).text
    assert f"my order is {number}" == _redacted(f"my order is {number}", country)


@pytest.mark.parametrize(
    "text",
    [
        "536-90-4399-1",
        "1-536-90-4399",
        "000-12-3456",
        "12345678A",
        "BG123456C",
        "AB123456E",
        "85073003327",
        "2 95 10 99 126 111 94",
        "RCCMNL83S18D969I",
        "131052-308U",
        "36574261890",
        "756.9217.0769.80",
        "15108695077",
    ],
)
def test_what_fails_its_check_stays(text: str) -> None:
    """A wrong check digit, a number that is never given out, a part of a longer one."""
    assert text == Detector(["national_number"]).redacted(text).text


@pytest.mark.parametrize("size", range(7, 20))
def test_few_random_numbers_pass_by_themselves(size: int) -> None:
    """Fewer than one in fifty of any size, over the rules of all countries together."""
    numbers = random.Random(size)
    detector = Detector(["national_number"])
    texts = [str(numbers.randrange(10 ** (size - 1), 10**size)) for _ in range(2_000)]

    assert sum(bool(detector.find(text)) for text in texts) < 40


def _redacted(text: str, country: Country) -> str:
    return Detector(["national_number"], countries=[country]).redacted(text).text
