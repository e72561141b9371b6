"""JSON texts that say the same to every reader, or are refused.

Python's own reader takes more than JSON (RFC 8259) allows, and where an object names a property
twice it keeps the last value, while the next reader may keep the first: such a text passes one and
means something else to the other.
"""

import json
import math
from typing import Final, NoReturn

from pydantic import JsonValue

_NESTING: Final = 64
"""Deepest nesting of a body: arguments are half as deep, and who walks through a deeper one ends
with an error of the interpreter's."""


def strictly(text: str) -> JsonValue:
    """A JSON value, integers whole whatever their size.

    Raises:
        ValueError: no JSON (`NaN` and `Infinity` are none), a number that overflows, or an object
            that names a property twice.
        RecursionError: nested too deeply to be read.
    """
    value: JsonValue = json.loads(
        text, parse_constant=_not_json, object_pairs_hook=_object, parse_float=_finite
    )
    return value


def written(body: bytes | str) -> JsonValue:
    """The JSON value that a body holds, UTF-8.

    Raises:
        ValueError: there is none, or not one for every reader.
    """
    try:
        value = strictly(body.decode() if isinstance(body, bytes) else body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if too_deep(value):
        raise ValueError(f"nested deeper than {_NESTING} levels")
    return value


def too_deep(value: JsonValue) -> bool:
    """Whether a value is nested deeper than whoever goes through it by levels should meet."""
    inside = [value]
    for _ in range(_NESTING):
        inside = [part for one in inside for part in _parts(one)]
    return bool(inside)


def _parts(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object names a property twice")
    return found
