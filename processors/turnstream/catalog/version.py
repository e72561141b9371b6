"""The two content hashes that travel on every decision.

`decision_version` covers all that can change a decision: tools, descriptions, examples, schemas,
rules, thresholds, agents, the validation of fields. `presentation_version` covers the words that
customers see. Every field of every definition belongs to exactly one of the two, so a corrected
spelling never unbinds what was calibrated or trained, and a changed tool never looks like one. The
labels of choices are among what decides: customers' messages are searched for them.

What is hashed is the meaning, not the file: comments, layout and defaults that are written out do
not count. The order of named entries does, because it is the order in which deciders see tools and
in which missing fields are asked for.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, Literal

import orjson
from pydantic import JsonValue

from turnstream.core.definition import Definition
from turnstream.core.definitions import (
    ApprovedAnswer,
    Catalog,
    Channel,
    FieldDefinition,
    Queue,
    RefusalRule,
)

Side = Literal["decision", "presentation"]

PRESENTATION: Final[Mapping[type[Definition], frozenset[str]]] = {
    ApprovedAnswer: frozenset({"text", "words"}),
    Catalog: frozenset({"default_locale"}),
    Channel: frozenset({"default_locale"}),
    FieldDefinition: frozenset({"question", "question_for"}),
    Queue: frozenset({"text"}),
    RefusalRule: frozenset({"text"}),
}
"""The fields of each definition that only customers see; any other field can change a decision."""

_FORM: Final = "turnstream-catalog-1"
"""Goes into every hash; to be raised when a default changes its meaning, else equal hashes lie."""

_DIGITS: Final = 16
"""Hexadecimal digits kept: 64 bits tell all the versions apart that a deployment will ever have."""


def decision_version(catalog: Catalog) -> str:
    """16 hexadecimal digits over everything that can change a decision."""
    return _hash(catalog, "decision")


def presentation_version(catalog: Catalog) -> str:
    """16 hexadecimal digits over the words that customers see."""
    return _hash(catalog, "presentation")


def _hash(catalog: Catalog, side: Side) -> str:
    body = orjson.dumps([_FORM, side, _projected(catalog, side)])
    return hashlib.sha256(body).hexdigest()[:_DIGITS]


def _projected(value: Definition, side: Side) -> dict[str, JsonValue]:
    """One side of a definition: fields in the order of their names, defaults left out."""
    shown = PRESENTATION.get(type(value), frozenset())
    result: dict[str, JsonValue] = {}
    for name, entry in sorted(type(value).model_fields.items()):
        content = getattr(value, name)
        inner: dict[str, JsonValue]
        if isinstance(content, Definition):
            inner = _projected(content, side)
        elif isinstance(content, dict) and any(
            isinstance(item, Definition) for item in content.values()
        ):
            inner = {key: _projected(item, side) for key, item in content.items()}
        elif isinstance(content, tuple) and any(isinstance(item, Definition) for item in content):
            # Entries without names say nothing to customers.
            if side == "decision":
                result[name] = [_projected(item, side) for item in content]
            continue
        elif (name in shown) == (side == "presentation") and content != entry.default:
            result[name] = list(content) if isinstance(content, tuple) else content
            continue
        else:
            continue
        if side == "presentation":
            # A tool without words of its own must not show on this side.
            inner = {key: item for key, item in inner.items() if item != {}}
        if inner or (side == "decision" and content != entry.default):
            result[name] = inner
    return result
