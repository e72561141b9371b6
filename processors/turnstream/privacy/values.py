"""Personal data in JSON values: results of tools, arguments, fields, parts of a checkpoint.

Texts are redacted wherever they stand. The key that a text stands under, and the one above it, say
what it is about: `{"ssn": "123456789"}`, `{"order": {"number": "4155552671"}}`.

A number that is a card's becomes the marker, a text; so does one whose key says that it is a
telephone or national number. A schema that wants a number there refuses it then, which is right:
the number is gone.

Keys are structure as a rule, and are data where somebody has put data into them. A key is redacted
like a text, except that an identifier (`rose`, `Will`) is never taken for a name. Of two keys that
would become one, the second gets a number: no value is lost.
"""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import JsonValue

from turnstream.privacy.detector import Detector
from turnstream.privacy.kinds import MARKERS, Kind

DEPTH: Final = 200
"""Deepest nesting that is looked into: a hundred more would end in Python's own limit, and readers
of JSON refuse it before."""

_IDENTIFIER: Final = re.compile(r"[^\W\d]\w{0,63}")


class TooDeep(Exception):
    """A value is nested so deeply that nobody has looked at all of it. It must not be stored."""


class JsonRedaction(NamedTuple):
    """A value without its personal data."""

    value: JsonValue
    """The very same object where nothing was found."""
    found: Mapping[Kind, int]
    """Kind to the number of findings."""


def redacted_json(value: JsonValue, *, detector: Detector, about: str = "") -> JsonRedaction:
    """A JSON value with a marker in the place of each finding.

    Args:
        value: it is not changed.
        detector: what is looked for.
        about: the key that the value stands under.

    Raises:
        TooDeep: more than 200 levels.
    """
    found: Counter[Kind] = Counter()
    return JsonRedaction(_redacted(value, detector, ("", about), found, DEPTH), found)


def _redacted(
    value: JsonValue,
    detector: Detector,
    keys: tuple[str, str],
    found: Counter[Kind],
    depth: int,
) -> JsonValue:
    if depth == 0:
        raise TooDeep(f"nested more than {DEPTH} levels deep")
    match value:
        case str():
            redaction = detector.redacted(value, about=" ".join(keys))
            found.update(one.kind for one in redaction.findings)
            return redaction.text
        case list():
            items = [_redacted(one, detector, keys, found, depth - 1) for one in value]
            return (
                items
                if any(one is not other for one, other in zip(items, value, strict=True))
                else value
            )
        case dict():
            return _redacted_object(value, detector, keys, found, depth)
    kind = kind_of_number(value, detector, about=" ".join(keys))
    if kind is None:
        return value
    found[kind] += 1
    return MARKERS[kind]


def _redacted_object(
    value: dict[str, JsonValue],
    detector: Detector,
    keys: tuple[str, str],
    found: Counter[Kind],
    depth: int,
) -> JsonValue:
    result: dict[str, JsonValue] = {}
    same = True
    for key, one in value.items():
        kinds = kinds_in_key(key, detector)
        name = key
        if kinds:
            found.update(kinds)
            name = _free(detector.redacted(key).text, result, value)
        result[name] = _redacted(one, detector, (keys[1], name), found, depth - 1)
        same = same and name == key and result[name] is one
    return value if same else result


def _free(name: str, *taken: Mapping[str, JsonValue]) -> str:
    free, number = name, 1
    while any(free in one for one in taken):
        number += 1
        free = f"{name} {number}"
    return free


def kinds_in_key(key: str, detector: Detector) -> list[Kind]:
    """What is found in the key of an object; an identifier is never a name."""
    identifier = _IDENTIFIER.fullmatch(key) is not None
    kinds = [one.kind for one in detector.find(key)]
    return [one for one in kinds if one != "name"] if identifier else kinds


def kind_of_number(value: JsonValue, detector: Detector, *, about: str) -> Kind | None:
    """What a value that is no text and holds no others is; 4.1e15 is read as 4100000000000000."""
    match value:
        case bool() | None:
            return None
        case float() if value.is_integer():
            return detector.in_number(int(value), about=about)
        case int():
            return detector.in_number(value, about=about)
    return None
