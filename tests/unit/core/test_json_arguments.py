"""Tests of turnstream.core.json_arguments."""

import json

import pytest
from pydantic import JsonValue

from turnstream.core.json_arguments import ARGUMENTS_CHARACTERS, Unparsed, parsed, unwritable


@pytest.mark.parametrize("raw", [None, "", "  \n", "\t\r\n ", "{}", " {} \n", {}])
def test_no_arguments_are_an_empty_object(raw: str | dict[str, JsonValue] | None) -> None:
    """Absent, blank and empty all mean a call without arguments."""
    assert {} == parsed(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ('{"status":"op', "not JSON: Unterminated string starting at at character 11"),
        ("null", "expected one JSON object, got null"),
        ("[]", "expected one JSON object, got an array"),
        ('"open"', "expected one JSON object, got a string"),
        ("5", "expected one JSON object, got a number"),
        ("5.5", "expected one JSON object, got a number"),
        ("true", "expected one JSON object, got a boolean"),
        ("{'status':'open'}", "not JSON: Expecting property name"),
        ("status=open", "not JSON: Expecting value at character 1"),
        ('{"a":1}{"a":2}', "not JSON: Extra data at character 8"),
        ('{"a":1} Done!', "not JSON: Extra data at character 9"),
        ('\u00a0{"a":1}', "not JSON: Expecting value"),
        ("\u00a0", "not JSON: Expecting value"),
        ("\ufeff{}", "not JSON: Unexpected UTF-8 BOM"),
        ('{"a":NaN}', "not JSON: NaN is no JSON number"),
        ('{"a":-Infinity}', "not JSON: -Infinity is no JSON number"),
        ('{"a":1e999}', "not JSON: a number is too large"),
        ('{"a":-1e999}', "not JSON: a number is too large"),
        ('{"a":1,"a":2}', "not JSON: an object names a property twice"),
        ('{"a":{"b":1,"b":2}}', "not JSON: an object names a property twice"),
        ('{"a":"\\ud800"}', "a text holds half a character"),
        ('{"\\ud800":1}', "a text holds half a character"),
        ('{"a":9223372036854775808}', "an integer has more than 64 bits"),
        ('{"a":' + "9" * 5_000 + "}", "not JSON: Exceeds the limit"),
        ('{"a":' + "[" * 40 + "]" * 40 + "}", "nested too deeply"),
        ('{"a":' + "[" * 30_000 + "]" * 30_000 + "}", "nested"),
        ('{"a":"' + "x" * ARGUMENTS_CHARACTERS, "characters; at most"),
    ],
)
def test_what_is_no_object_is_never_taken_for_an_empty_one(raw: str, message: str) -> None:
    """The fault says what is wrong and where, and repeats nothing of the text."""
    found = parsed(raw)

    assert isinstance(found, Unparsed)
    assert found.message.startswith(message) or message in found.message
    assert len(found.message) < 300


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"a": float("nan")}, "not finite"),
        ({"a": [float("inf")]}, "not finite"),
        ({"a": {"b": "\ud800"}}, "half a character"),
        ({"a": b"bytes"}, "what JSON does not have"),
        ({1: "a"}, "no text"),
        ([1], "got an array"),
    ],
)
def test_parsed_objects_are_looked_at_too(raw: object, message: str) -> None:
    """A provider may hand over an object with what no JSON text could hold."""
    found = parsed(raw)  # type: ignore[arg-type]

    assert isinstance(found, Unparsed)
    assert message in found.message


def test_what_is_taken_stays_as_it_was() -> None:
    """Types, null, empty texts and the word null are nobody's to change here."""
    given: dict[str, JsonValue] = {
        "a": None,
        "b": "",
        "c": "null",
        "d": 3.0,
        "e": "00123",
        "f": [True, {"g": -(2**63)}],
        "n": "}{",
    }

    assert given == parsed(json.dumps(given)) == parsed(given)
    assert isinstance(parsed('{"d": 3.0}')["d"], float)  # type: ignore[index]


def test_depth_is_counted_from_the_value() -> None:
    """A value as deep as allowed is fine, one level more is not."""
    assert unwritable([[1]], depth=2) is None
    assert "nested too deeply" == unwritable([[[1]]], depth=2)
