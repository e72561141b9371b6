"""What must not be altered, and would be.

Two things have to be kept as they are or not at all. The labels of a restricted question: altered,
distinct choices become one, and no reply fits any more. A model's reasoning and a provider's
continuation state: the provider refuses them altered, and signatures over them break. Where
personal data would have to be removed from one of them, neither the rule nor the data may give way:
the question is not asked.

Encrypted and signed contents cannot be looked into, so they are no conflict.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from pydantic import JsonValue

from turnstream.privacy.detector import Detector
from turnstream.privacy.kinds import Kind
from turnstream.privacy.values import DEPTH, TooDeep, kind_of_number, kinds_in_key

_SEALED: Final = re.compile(
    r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9])[A-Za-z0-9+/_\-]{64,}={0,2}"
)
"""Ciphertext or a signature in base64: in so many characters, digits that look like a telephone
number come about by chance."""

_SHOWN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]{0,39}")
"""A key that may be named: what a program calls its parts."""

_UNSHOWN: Final = "*"


class Conflict(NamedTuple):
    """The first thing that redaction would alter. It names the place, never what stands there."""

    of: Literal["label", "continuation"]
    place: str
    """The number of the label, from 0, or a JSON pointer; `*` in it stands for a key that may be
    data."""
    kind: Kind
    """What is found there."""


def conflict(
    detector: Detector, *, labels: Sequence[str] = (), continuation: JsonValue = None
) -> Conflict | None:
    """Look for what redaction would alter and must not.

    Args:
        detector: the tenant's, with the session's names.
        labels: of the suggestions of a restricted question, and their values; others may be
            altered.
        continuation: all that the provider gets back unchanged: replies with reasoning, signatures,
            state, and the results that it has been sent already.

    Raises:
        TooDeep: the continuation is nested more than 200 levels deep.
    """
    for place, label in enumerate(labels):
        found = detector.find(label)
        if found:
            return Conflict("label", str(place), found[0].kind)
    return _altered(continuation, detector, "", ("", ""), DEPTH)


def _altered(
    value: JsonValue, detector: Detector, place: str, keys: tuple[str, str], depth: int
) -> Conflict | None:
    if depth == 0:
        raise TooDeep(f"nested more than {DEPTH} levels deep")
    match value:
        case str():
            if _SEALED.fullmatch(value) is not None:
                return None
            found = detector.find(value, about=" ".join(keys))
            return Conflict("continuation", place, found[0].kind) if found else None
        case list():
            for number, one in enumerate(value):
                altered = _altered(one, detector, f"{place}/{number}", keys, depth - 1)
                if altered is not None:
                    return altered
            return None
        case dict():
            for key, one in value.items():
                inside = f"{place}/{_shown(key, detector)}"
                kinds = kinds_in_key(key, detector)
                if kinds:
                    return Conflict("continuation", inside, kinds[0])
                altered = _altered(one, detector, inside, (keys[1], key), depth - 1)
                if altered is not None:
                    return altered
            return None
    kind = kind_of_number(value, detector, about=" ".join(keys))
    return Conflict("continuation", place, kind) if kind is not None else None


def _shown(key: str, detector: Detector) -> str:
    return key if _SHOWN.fullmatch(key) and not detector.find(key) else _UNSHOWN
