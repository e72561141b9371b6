"""The first gate: what a model wrote as a call's arguments, as a JSON object or not at all.

A model's arguments are text until they are parsed, and the text may be anything. Nothing is
repaired here: broken JSON never becomes an empty object, which would run a tool without its
filters. :func:`parsed` refuses `NaN`, `Infinity`, numbers that overflow to infinity, a second value
of the same name (:mod:`turnstream.core.json_texts`), lone surrogates, numbers that no reader down
the line holds, and anything after the object.
"""

import json
import math
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.evolution import dataclass
from turnstream.core.json_texts import strictly

ARGUMENTS_CHARACTERS: Final = 65_536
"""Longest arguments that are read. A megabyte of them would only be refused more slowly."""

_DEPTH: Final = 32
"""Deepest nesting: no tool takes more, and readers down the line end with errors of their own."""

_INTEGERS: Final = range(-(2**63), 2**63)
"""Integers that arrive as they were written: readers in other languages turn longer ones into
other numbers without a word."""

_BLANK: Final = " \t\r\n"
"""White space of JSON (RFC 8259, section 2); any other is a text that nobody can read."""


@dataclass(frozen=True, slots=True)
class Unparsed:
    """Why a text holds no arguments. The text itself is not repeated."""

    message: str


def parsed(raw: str | Mapping[str, JsonValue] | None) -> dict[str, JsonValue] | Unparsed:
    """Read a call's arguments.

    Args:
        raw: JSON text, or an object that a provider has parsed. None and blank text are a call
            without arguments: that is how providers send one.
    """
    if raw is None:
        return {}
    value: JsonValue | Mapping[str, JsonValue] = None
    if isinstance(raw, str):
        if len(raw) > ARGUMENTS_CHARACTERS:
            return Unparsed(f"{len(raw)} characters; at most {ARGUMENTS_CHARACTERS} are read")
        if not raw.strip(_BLANK):
            return {}
        try:
            value = strictly(raw)
        except json.JSONDecodeError as error:
            return Unparsed(f"not JSON: {error.msg} at character {error.pos + 1}")
        except RecursionError:
            return Unparsed(f"nested deeper than {_DEPTH} levels")
        except ValueError as error:
            return Unparsed(f"not JSON: {error}")
    else:
        value = raw
    if not isinstance(value, Mapping):
        return Unparsed(f"expected one JSON object, got {_kind(value)}")
    fault = unwritable(value)
    return dict(value) if fault is None else Unparsed(fault)


def unwritable(value: object, *, depth: int = _DEPTH) -> str | None:
    """What keeps a value from being written as JSON and read again as the same, if anything."""
    if depth < 0:
        return "nested too deeply"
    match value:
        case None | bool():
            return None
        case str():
            return None if _writable(value) else "a text holds half a character"
        case int():
            return None if value in _INTEGERS else "an integer has more than 64 bits"
        case float():
            return None if math.isfinite(value) else "a number is not finite"
        case Mapping():
            if not all(isinstance(name, str) for name in value):
                return "a property's name is no text"
            parts = [*value.keys(), *value.values()]
        case list():
            parts = value
        case _:
            return "holds what JSON does not have"
    return next((fault for one in parts if (fault := unwritable(one, depth=depth - 1))), None)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "an array"
    return "a number"


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
