"""Personal data in JSON: texts, numbers, keys."""

import pytest
from pydantic import JsonValue

from turnstream.privacy import Detector, TooDeep, redacted_json

_DETECTOR = Detector(names_from_session=["John Smith", "Rose"], default_region="US")


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        ({"email": "john@example.com", "n": 1}, {"email": "[email]", "n": 1}),
        ([["call 415-555-2671"], None, True], [["call [phone]"], None, True]),
        ("4111111111111111", "[card]"),
        (4111111111111111, "[card]"),
        (4111111111111111.0, "[card]"),
        ({"order": {"number": "4155552671"}}, {"order": {"number": "4155552671"}}),
        ({"phone": {"number": "4155552671"}}, {"phone": {"number": "[phone]"}}),
        ({"phone": 4155552671}, {"phone": "[phone]"}),
        ({"phones": [4155552671]}, {"phones": [4155552671]}),
        ({"mobile": [4155552671, 1]}, {"mobile": ["[phone]", 1]}),
        ({"orderId": "4155552671"}, {"orderId": "4155552671"}),
        ({"ssn": "536904399"}, {"ssn": "[national_number]"}),
        ({"created": 1764000000, "took": 0.25}, {"created": 1764000000, "took": 0.25}),
        ({"a@b.example": 1}, {"[email]": 1}),
        ({"a@b.example": 1, "c@d.example": 2}, {"[email]": 1, "[email] 2": 2}),
        ({"a@b.example": 1, "[email]": 2}, {"[email] 2": 1, "[email]": 2}),
        ({"rose": "rose"}, {"rose": "[name]"}),
        ({"John Smith": 1, "John": 2}, {"[name]": 1, "John": 2}),
    ],
)
def test_values_lose_their_personal_data(value: JsonValue, redacted: JsonValue) -> None:
    """Texts and numbers always, keys where they are data; again, nothing changes."""
    result = redacted_json(value, detector=_DETECTOR)

    assert redacted == result.value
    assert (redacted, {}) == tuple(redacted_json(result.value, detector=_DETECTOR))


def test_what_was_found_is_counted_by_kind() -> None:
    """Keys and numbers included."""
    value: JsonValue = {"a@b.example": ["c@d.example", 4111111111111111, "John"]}

    assert {"email": 2, "card": 1, "name": 1} == redacted_json(value, detector=_DETECTOR).found


def test_a_value_without_personal_data_comes_back_itself() -> None:
    """Nothing is copied, and nothing given is changed."""
    value: JsonValue = {"a": [1, {"b": "c"}], "d": None}
    other: JsonValue = {"a": ["john@example.com"], "same": [1, 2]}

    assert value is redacted_json(value, detector=_DETECTOR).value
    redacted_json(other, detector=_DETECTOR)
    assert {"a": ["john@example.com"], "same": [1, 2]} == other


def test_the_key_given_is_what_the_value_is_about() -> None:
    """As the name of a field, whose value stands alone."""
    assert "[phone]" == redacted_json(4155552671, detector=_DETECTOR, about="phone").value


def test_what_is_nested_too_deeply_is_not_passed_on() -> None:
    """Nobody has looked at all of it; the message does not say what is in it."""
    value: JsonValue = "john@example.com"
    for _ in range(300):
        value = [value]

    with pytest.raises(TooDeep, match=r"^nested more than 200 levels deep$"):
        redacted_json(value, detector=_DETECTOR)
