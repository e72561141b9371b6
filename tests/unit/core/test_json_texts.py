"""JSON texts are read as every reader reads them, or not at all."""

import pytest
from pydantic import JsonValue

from turnstream.core.json_texts import written


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a":[1,2.5,null,true]}\n', {"a": [1, 2.5, None, True]}),
        ('{"é":"é"}'.encode(), {"é": "é"}),
        ('{"é":"é"}', {"é": "é"}),
        (b'{"a":18446744073709551617}', {"a": 2**64 + 1}),
        (b'{"a":1' + b"0" * 400 + b"}", {"a": 10**400}),
        (b'{"a":{"b":1},"b":{"b":2}}', {"a": {"b": 1}, "b": {"b": 2}}),
        (b"[" * 64 + b"]" * 64, None),
        (b"0", 0),
    ],
)
def test_a_body_is_read_as_it_is_written(body: bytes | str, value: JsonValue) -> None:
    """Integers whole, whatever their size; nested as deep as a message with arguments is."""
    if value is None:
        for _ in range(64):
            value = [] if value is None else [value]

    assert value == written(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "Expecting value"),
        (b"amount=5", "Expecting value"),
        (b'{"amount":5} ;', "Extra data"),
        (b'{"amount":500,"amount":5}', "names a property twice"),
        (b'[{"a":{"b":1,"\\u0062":1}}]', "names a property twice"),
        (b'{"a":NaN}', "no JSON number"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":' + b"9" * 5000 + b"}", "limit"),
        (b'{"a":"\xe9"}', "utf-8"),
        ('{"a":1}'.encode("utf-16"), "utf-8"),
        (b'\xef\xbb\xbf{"a":1}', "BOM"),
        (b"[" * 65 + b"]" * 65, "nested"),
        (b"[" * 60_000 + b"]" * 60_000, "nested"),
    ],
)
def test_what_can_be_read_in_two_ways_is_not_read(body: bytes, message: str) -> None:
    """Nor what is no JSON, or no UTF-8."""
    with pytest.raises(ValueError, match=message):
        written(body)
