"""Card numbers, whatever breaks them up, and what only looks like one."""

import pytest

from turnstream.privacy import Detector

_DETECTOR = Detector(["card"])


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "4111.1111.1111.1111",
        "4111\u20111111\u20131111\u22121111",
        "4111\u00a01111\u202f1111\u20091111",
        "4111 1111\n1111 1111",
        "411111111\r\n1111111",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        "4111\u200b1111\ufeff1111\u20601111",
        "\uff14\uff11\uff11\uff11\u30001111 1111 1111",
        "\u0664\u0661\u0661\u0661 \u0661\u0661\u0661\u0661 1111 1111",
        "\u202d4111111111111111\u202c",
        "4000000000000000006",
        "5555555555554444",
        "2223003122003222",
        "3782 822463 10005",
        "3056 930902 5904",
        "6011111111111117",
        "3530111333300000",
        "6759649826438453",
        "2200123456789019",
    ],
)
def test_numbers_of_all_networks_are_taken_out(number: str) -> None:
    """A valid number is found however it is written; marks of direction around it may stay."""
    redacted = _DETECTOR.redacted(f"it is {number}, thanks").text

    assert "it is [card], thanks" == redacted.replace("\u202d", "").replace("\u202c", "")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("4111 1111 1111 1111 12/27 123", "[card] 12/27 123"),
        ("4111111111111111 1227 123", "[card] 1227 123"),
        ("2 4111-1111-1111-1111 3", "2 [card] 3"),
        ("3782 822463 10005 1234", "[card] 1234"),
        ("41 11 11 11 11 11 11 11 99", "[card] 99"),
        ("card4111111111111111", "card[card]"),
        ("卡号4111111111111111是", "卡号[card]是"),
        ("order 4111111111111111", "order [card]"),
        ("4111111111111111,5555555555554444", "[card],[card]"),
    ],
)
def test_what_stands_around_a_number_stays(text: str, redacted: str) -> None:
    """Expiry dates and codes do not hide a card, and no word excuses one."""
    assert redacted == _DETECTOR.redacted(text).text


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",
        "1234567812345670",
        "9999999999999995",
        "a1b4111111111111111",
        "4111111111111111x",
        "94111111111111111123456789",
        "411111111111111",
        "2024-01-02 10:11:12 4111",
        "4,111,111,111,111,111",
        "1 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 3 4",
        "0000000000000000",
        "4222222222222",
        "352099001761481",
        "9780306406157",
    ],
)
def test_other_digits_stay(text: str) -> None:
    """A wrong check digit, a prefix of no network, a part of an identifier: no card."""
    assert text == _DETECTOR.redacted(text).text


def test_an_order_number_that_passes_for_a_card_is_taken_for_one() -> None:
    """The price of the rule: prefix, length and check digit right, and it is none."""
    assert "order [card]" == _DETECTOR.redacted("order 4000000000000002").text
    assert "order 4000000000000003" == _DETECTOR.redacted("order 4000000000000003").text
