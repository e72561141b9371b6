"""The input schemas that an MCP server lists, and whether they are those of the catalog."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import orjson
from pydantic import JsonValue

from turnstream.core.schema_tree import Place, Schema, pointer, rebuilt

_SAYS_NOTHING: Final = frozenset(
    {"$comment", "$schema", "deprecated", "description", "examples", "readOnly", "title"}
)
"""Keywords that change no call. `default` does: the server uses it for what a call leaves out."""

_UNORDERED: Final = frozenset({"enum", "required", "type"})


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools of a server as it listed them."""

    schemas: Mapping[str, Schema]
    """The server's name of a tool to its input schema."""
    read_at: float
    """When, in seconds of the event loop's clock."""
    version: str
    """16 hexadecimal digits over all that is in `schemas`."""


def listing(schemas: Mapping[str, Schema], *, read_at: float) -> Listing:
    """The tools of a server with their version."""
    body = orjson.dumps({name: dict(one) for name, one in schemas.items()}, option=_SORTED)
    return Listing(schemas, read_at, hashlib.sha256(body).hexdigest()[:16])


_SORTED: Final = orjson.OPT_SORT_KEYS


def form_of(schema: Schema) -> bytes:
    """What two schemas have in common exactly when the same calls have the same meaning to both.

    Canonical JSON: keys sorted, words for people left out, lists without an order in one.
    """
    return orjson.dumps(_bare(dict(schema), ()), option=_SORTED)


def difference(ours: Schema, theirs: Schema) -> str | None:
    """The first place where two schemas differ, as a JSON pointer; None where they do not."""
    if form_of(ours) == form_of(theirs):
        return None
    place = _apart(_bare(dict(ours), ()), _bare(dict(theirs), ()), ())
    return pointer(place) or "/"


def _bare(schema: JsonValue, _place: Place) -> JsonValue:
    if not isinstance(schema, dict):
        return schema
    said = {
        key: sorted(value, key=orjson.dumps)
        if key in _UNORDERED and isinstance(value, list)
        else value
        for key, value in schema.items()
        if key not in _SAYS_NOTHING and not key.startswith("x-")
    }
    if said.get("required") == []:
        del said["required"]
    return rebuilt(said, (), _bare)


def _apart(ours: JsonValue, theirs: JsonValue, place: Place) -> Place:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in ours or key not in theirs:
                return (*place, key)
            if ours[key] != theirs[key]:
                return _apart(ours[key], theirs[key], (*place, key))
    return place
