"""JSON Schemas as trees: where their parts are, what a reference means, whether null is allowed.

A schema is JSON Schema 2020-12, either a mapping or ``true`` / ``false``. Nothing here validates
a value; null is the one instance that can be judged without one, since most keywords pass over it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from pydantic import JsonValue

Schema: TypeAlias = Mapping[str, JsonValue]
Place: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the top of a document."""

OF_SCHEMAS: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords that hold schemas by name."""

LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords that hold schemas in order."""

NESTED: Final = frozenset(
    """
    additionalProperties contains contentSchema else if items not propertyNames then
    unevaluatedItems unevaluatedProperties
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
"""Keywords that hold one schema."""

REFERENCES: Final = ("$ref", "$dynamicRef")


def pointer(place: Place) -> str:
    """A place as a JSON pointer (RFC 6901), empty for the top."""
    return "".join(
        f"/{part}" if isinstance(part, int) else "/" + part.replace("~", "~0").replace("/", "~1")
        for part in place
    )


def children(schema: Schema) -> Iterator[tuple[Place, JsonValue]]:
    """The schemas directly inside a schema, each with its place there."""
    for key, value in schema.items():
        if key in OF_SCHEMAS and isinstance(value, dict):
            for name, inner in value.items():
                yield (key, name), inner
        elif key in LISTS and isinstance(value, list):
            for index, inner in enumerate(value):
                yield (key, index), inner
        elif key in NESTED:
            yield (key,), value


def walk(schema: Schema) -> Iterator[tuple[Place, Schema]]:
    """A schema and every mapping inside it that is a schema too, with its place."""
    todo: list[tuple[Place, JsonValue]] = [((), dict(schema))]
    while todo:
        place, here = todo.pop()
        if not isinstance(here, dict):
            continue  # true and false are schemas too
        yield place, here
        todo += [((*place, *inside), inner) for inside, inner in children(here)]


def rebuilt(
    schema: Schema, place: Place, convert: Callable[[JsonValue, Place], JsonValue]
) -> dict[str, JsonValue]:
    """A schema with every schema directly inside it converted."""
    result: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key in OF_SCHEMAS and isinstance(value, dict):
            result[key] = {
                name: convert(inner, (*place, key, name)) for name, inner in value.items()
            }
        elif key in LISTS and isinstance(value, list):
            result[key] = [
                convert(inner, (*place, key, index)) for index, inner in enumerate(value)
            ]
        elif key in NESTED:
            result[key] = convert(value, (*place, key))
        else:
            result[key] = value
    return result


def referred(root: Schema, reference: str) -> JsonValue:
    """The schema that a reference inside a document leads to; None when it leads nowhere.

    ``#`` and ``#/...`` are pointers, ``#name`` an anchor.
    """
    if not reference.startswith("#"):
        return None
    fragment = reference.removeprefix("#")
    if fragment and not fragment.startswith("/"):
        anchored = (
            here
            for _, here in walk(root)
            if fragment in (here.get("$anchor"), here.get("$dynamicAnchor"))
        )
        found = next(anchored, None)
        return None if found is None else dict(found)
    at: JsonValue = dict(root)
    for part in fragment.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and name in at:
            at = at[name]
        elif isinstance(at, list) and name.isdecimal() and int(name) < len(at):
            at = at[int(name)]
        else:
            return None
    return at


def types(schema: Schema) -> tuple[str, ...]:
    """The JSON types that a schema names, in its order; none when it does not say."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return (kind,)
    return tuple(str(one) for one in kind) if isinstance(kind, list) else ()


def admits_null(schema: JsonValue, *, root: Schema) -> bool:
    """Whether null satisfies a schema.

    Exact for every keyword that judges null. A reference that leads nowhere counts as satisfied:
    whoever validates the whole will say so.
    """
    return _null(schema, root, frozenset())


def _null(schema: JsonValue, root: Schema, seen: frozenset[str]) -> bool:
    if not isinstance(schema, dict):
        return schema is not False
    if "type" in schema and "null" not in types(schema):
        return False
    enum = schema.get("enum")
    if isinstance(enum, list) and None not in enum:
        return False
    if schema.get("const") is not None:
        return False
    for key in REFERENCES:
        reference = schema.get(key)
        if isinstance(reference, str) and reference not in seen:
            target = referred(root, reference)
            if target is not None and not _null(target, root, seen | {reference}):
                return False
    return _composed(schema, root, seen)


def _composed(schema: Schema, root: Schema, seen: frozenset[str]) -> bool:
    def members(key: str) -> list[bool] | None:
        value = schema.get(key)
        return [_null(one, root, seen) for one in value] if isinstance(value, list) else None

    every, some, one = members("allOf"), members("anyOf"), members("oneOf")
    if every is not None and not all(every):
        return False
    if some is not None and not any(some):
        return False
    if one is not None and sum(one) != 1:
        return False
    if "not" in schema and _null(schema["not"], root, seen):
        return False
    if "if" in schema:
        branch = "then" if _null(schema["if"], root, seen) else "else"
        return branch not in schema or _null(schema[branch], root, seen)
    return True
