"""What must not be altered: labels and continuation state."""

import base64
import random

import pytest
from pydantic import JsonValue

from turnstream.privacy import Conflict, Detector, TooDeep, conflict

_DETECTOR = Detector(names_from_session=["John Smith"], default_region="US")


def test_labels_without_personal_data_are_no_conflict() -> None:
    """Nor is a question without labels, or a model without state."""
    assert conflict(_DETECTOR, labels=["Yes", "No", "Order 12345"]) is None
    assert conflict(_DETECTOR) is None


def test_the_first_label_that_would_be_altered_is_named() -> None:
    """By its number, never by its text."""
    found = conflict(_DETECTOR, labels=["Home", "john@example.com", "+14155552671"])

    assert Conflict("label", "1", "email") == found


def test_labels_that_would_become_one_are_a_conflict() -> None:
    """Two addresses of one person are two choices, and would be one marker."""
    assert Conflict("label", "0", "email") == conflict(
        _DETECTOR, labels=["a@b.example", "c@d.example"]
    )


@pytest.mark.parametrize(
    ("continuation", "place", "kind"),
    [
        ({"content": [{"thinking": "he is John"}]}, "/content/0/thinking", "name"),
        ([{"text": "ok"}, {"text": "4111111111111111"}], "/1/text", "card"),
        ({"state": {"phone": 4155552671}}, "/state/phone", "phone"),
        ("mail john@example.com", "", "email"),
        ({"a@b.example": "x"}, "/*", "email"),
        ({"john": {"note": "john"}}, "/*/note", "name"),
        ({"a/b c": ["+14155552671"]}, "/*/0", "phone"),
    ],
)
def test_state_that_would_be_altered_is_a_conflict(
    continuation: JsonValue, place: str, kind: str
) -> None:
    """The place is a pointer, without keys that may themselves be data."""
    found = conflict(_DETECTOR, labels=["Yes"], continuation=continuation)

    assert found is not None
    assert ("continuation", place, kind) == tuple(found)
    assert "john" not in repr(found).lower()


def test_usual_state_is_no_conflict() -> None:
    """Ids, hashes, times, counts, and arguments without personal data."""
    continuation: JsonValue = {
        "id": "resp_68a1f0e2b4c88190a2d3e4f5a6b7c8d9",
        "created_at": 1764000000,
        "created_ms": 1764000000123,
        "call_id": "call_9A7xUoQw4155552671Zz",
        "request": "550e8400-e29b-41d4-a716-446655440000",
        "temperature": 0.2,
        "arguments": '{"order_number": "4155552671"}',
        "stop": None,
        "store": False,
    }

    assert conflict(_DETECTOR, continuation=continuation) is None


def test_encrypted_reasoning_is_no_conflict() -> None:
    """It cannot be looked into, and what its characters look like is chance."""
    numbers = random.Random(6)
    sealed = base64.b64encode(numbers.randbytes(3_000)).decode()
    chance = sealed[:100] + "/4155552671/" + sealed[100:200]

    assert _DETECTOR.find(chance)
    assert conflict(_DETECTOR, continuation={"encrypted_content": sealed}) is None
    assert conflict(_DETECTOR, continuation={"signature": chance}) is None


def test_a_long_text_in_one_word_is_not_taken_for_encrypted() -> None:
    """An address has an at sign, and plain digits have no letters."""
    text = "x" * 70 + "Y1@example.com"

    assert Conflict("continuation", "", "email") == conflict(_DETECTOR, continuation=text)
    assert Conflict("continuation", "", "card") == conflict(
        _DETECTOR, continuation="-".join(["4111111111111111"] * 5)
    )


def test_state_that_is_nested_too_deeply_is_no_answer() -> None:
    """It is refused, not taken for sound."""
    value: JsonValue = "x"
    for _ in range(300):
        value = {"a": value}

    with pytest.raises(TooDeep):
        conflict(_DETECTOR, continuation=value)
