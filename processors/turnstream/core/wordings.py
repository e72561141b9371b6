"""Input schemas in the words of each provider: nothing is lost, or an error says what would be.

A conversion keeps every constraint that a valid argument depends on. Where a provider has other
words, equal ones are found: `const` is an `enum` of one value, an `enum` has the type of its
values, a reference with a description is one branch of an `anyOf`. What JSON Schema itself lets
everybody leave out (`$schema`, `$comment`, names that begin with ``x-``) is left out where a
provider refuses what it does not know. Anything else raises
:class:`~turnstream.core.dialects.SurfaceError`.

The strict form narrows in two ways, both undone or harmless on the way back: an optional property
is required and nullable (:mod:`turnstream.core.nulls` takes the nulls out again), and an object
that does not speak of further properties is closed, so that a model gives none.
"""

from collections.abc import Sequence
from typing import Final, Literal, NoReturn

from pydantic import JsonValue

from turnstream.core.dialects import GEMINI, OPENAI, OPENAI_STRICT, Dialect, without_asides
from turnstream.core.schema_tree import (
    Place,
    Schema,
    admits_null,
    children,
    rebuilt,
    referred,
    types,
    walk,
)

_ANNOTATIONS: Final = frozenset({"description", "title"})
_DEFINITIONS: Final = ("$defs", "definitions")

MAX_PROPERTIES: Final = 5000
"""Properties of one strict schema; OpenAI refuses the request beyond this and the next four."""

MAX_DEPTH: Final = 10
"""Levels of objects inside objects, the arguments themselves included."""

MAX_TEXT: Final = 120_000
"""Characters of all property names, definition names, enum and const values."""

MAX_ENUM_VALUES: Final = 1000
"""Values of all enums together."""

LONG_ENUM: Final = 250
MAX_LONG_ENUM_TEXT: Final = 15_000
"""Characters of the values of one enum of strings with more values than `LONG_ENUM`."""


def for_openai(tool: str, schema: Schema) -> dict[str, JsonValue]:
    """A schema for a function tool without strict: as it is, with nothing that OpenAI misses.

    Raises:
        SurfaceError: something stands at the top that is refused there.
    """
    OPENAI.check(tool, schema)

    def convert(here: JsonValue, place: Place) -> JsonValue:
        if not isinstance(here, dict):
            return here
        words = rebuilt(here, place, convert)
        # OpenAI refuses an array that does not speak of its items and a top without properties.
        if "array" in types(words) and "items" not in words:
            words["items"] = {}
        if not place:
            words.setdefault("properties", {})
        return words

    return _mapping(convert(dict(schema), ()))


# --- Gemini -------------------------------------------------------------------------------------


def for_gemini(tool: str, schema: Schema) -> dict[str, JsonValue]:
    """A schema in the words of `parametersJsonSchema`.

    Raises:
        SurfaceError: it cannot be said there.
    """
    GEMINI.check(tool, schema)
    _refuse_cycles(tool, schema)

    def convert(here: JsonValue, place: Place) -> JsonValue:
        if not isinstance(here, dict):
            return here
        words = without_asides(rebuilt(here, place, convert))
        if "const" in words:
            if "enum" in words:
                GEMINI.refuse(tool, place, "const", "beside enum; write one of them")
            words["enum"] = [words.pop("const")]
        if "$ref" in words:
            return _lone_reference(GEMINI, tool, words, place, beside=("$id", "$anchor"))
        return _gemini_enum(tool, words, place) if "enum" in words else words

    return _mapping(convert(dict(schema), ()))


def _gemini_enum(tool: str, words: dict[str, JsonValue], place: Place) -> dict[str, JsonValue]:
    """An `enum` of strings or numbers, null apart."""
    if "type" not in words:
        words = {"type": _type_of_values(GEMINI, tool, words, place), **words}
    values = _list(words["enum"])
    if any(isinstance(value, bool | list | dict) for value in values):
        GEMINI.refuse(tool, place, "enum", "only strings and numbers are supported")
    if None not in values:
        return words
    rest: list[JsonValue] = [value for value in values if value is not None]
    kinds = [kind for kind in types(words) if kind != "null"]
    annotations = {key: words.pop(key) for key in (*_ANNOTATIONS, "default") if key in words}
    branches: list[JsonValue] = [{"type": "null"}] if "null" in types(words) else []
    if rest and kinds:
        kind: JsonValue = kinds[0] if len(kinds) == 1 else list[JsonValue](kinds)
        branches.insert(0, {**words, "type": kind, "enum": rest})
    if not branches:
        GEMINI.refuse(tool, place, "enum", "its type allows none of its values")
    return {"anyOf": branches, **annotations}


def _refuse_cycles(tool: str, schema: Schema) -> None:
    """Gemini unrolls a cycle to a limited depth: deeper arguments could not be given."""
    followed: set[str] = set()

    def follow(here: Schema, start: Place | None, within: frozenset[str]) -> None:
        for place, part in walk(here):
            reference = part.get("$ref")
            if not isinstance(reference, str):
                continue
            at = place if start is None else start
            if reference in within:
                GEMINI.refuse(tool, at, "$ref", "a schema that refers to itself is not supported")
            target = referred(schema, reference)
            if isinstance(target, dict) and reference not in followed:
                follow(target, at, within | {reference})
                followed.add(reference)

    follow(schema, None, frozenset())


# --- OpenAI, strict -----------------------------------------------------------------------------


def for_openai_strict(tool: str, schema: Schema) -> dict[str, JsonValue]:
    """A schema for a strict function tool.

    Every property is required, optional ones are nullable, every object is closed.

    Raises:
        SurfaceError: it cannot be said in strict mode.
    """
    OPENAI_STRICT.check(tool, schema)
    strict = _Strict(tool, schema).convert(dict(schema), ())
    _keep_limits(tool, strict)
    return strict


class _Strict:
    def __init__(self, tool: str, root: Schema) -> None:
        self._tool = tool
        self._root = root

    def convert(self, schema: JsonValue, place: Place) -> dict[str, JsonValue]:
        if not isinstance(schema, dict):
            self._refuse(place, "type", "true and false are no schemas there; name a type")
        here = without_asides(schema)
        if here.pop("default", None) is not None:  # null says no more than that null is allowed
            self._refuse(place, "default", "not supported; say it in the description")
        if "$ref" in here:
            return self._reference(here, place)
        if "anyOf" in here:
            return self._union(here, place)
        if "type" not in here:
            if "enum" not in here and "const" not in here:
                self._refuse(place, "type", "every schema must name its type")
            kind = _type_of_values(OPENAI_STRICT, self._tool, here, place)
            here = {"type": kind, **here}
        kinds = [kind for kind in types(here) if kind != "null"]
        if len(kinds) > 1:
            self._refuse(place, "type", "several types: write anyOf, one type each")
        if kinds == ["array"] and not isinstance(here.get("items"), dict):
            self._refuse(place, "items", "an array must say what its items are")
        if kinds == ["object"]:
            return self._object(here, place)
        return self._inside(here, place)

    def _reference(self, here: dict[str, JsonValue], place: Place) -> dict[str, JsonValue]:
        reference = here["$ref"]
        if reference != "#" and not str(reference).startswith(("#/$defs/", "#/definitions/")):
            # The copy of any other place is changed: what is optional there is nullable here.
            self._refuse(place, "$ref", "only # and definitions under $defs can be referred to")
        return _lone_reference(OPENAI_STRICT, self._tool, here, place)

    def _union(self, here: dict[str, JsonValue], place: Place) -> dict[str, JsonValue]:
        beside = here.keys() - _ANNOTATIONS - {"anyOf", *_DEFINITIONS}
        if beside:
            reason = f"beside {', '.join(sorted(beside))}; say everything inside the branches"
            self._refuse(place, "anyOf", reason)
        return self._inside(here, place)

    def _object(self, here: dict[str, JsonValue], place: Place) -> dict[str, JsonValue]:
        further = here.get("additionalProperties", False)
        if further is not False:
            self._refuse(place, "additionalProperties", "further properties are not supported")
        declared = here.setdefault("properties", {})
        properties = declared if isinstance(declared, dict) else {}
        if not properties and place and "additionalProperties" not in here:
            reason = "an object without declared properties would always be empty"
            self._refuse(place, "properties", reason)
        required = _list(here.get("required"))
        for name in required:
            if name not in properties:
                self._refuse(place, "required", f"{name!r} is not among the properties")
        result = self._inside(here, place)
        converted = _mapping(result["properties"])
        result["properties"] = {
            name: inner
            if name in required or admits_null(properties[name], root=self._root)
            else _nullable(_mapping(inner))
            for name, inner in converted.items()
        }
        result["required"] = list[JsonValue](properties)
        result["additionalProperties"] = False
        return result

    def _inside(self, here: dict[str, JsonValue], place: Place) -> dict[str, JsonValue]:
        closed = {key: value for key, value in here.items() if key != "additionalProperties"}
        return rebuilt(closed, place, self.convert)

    def _refuse(self, place: Place, keyword: str, reason: str) -> NoReturn:
        OPENAI_STRICT.refuse(self._tool, place, keyword, reason)


def _nullable(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A converted schema that allows null beside what it allows."""
    null: JsonValue = {"type": "null"}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*_list(schema["anyOf"]), null]}
    if "$ref" in schema or "const" in schema or types(schema) == ("object",):
        annotations = {key: schema[key] for key in schema if key in _ANNOTATIONS}
        bare: JsonValue = {key: schema[key] for key in schema if key not in _ANNOTATIONS}
        return {"anyOf": [bare, null], **annotations}
    kinds = list[JsonValue]([kind for kind in types(schema) if kind != "null"])
    nullable = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        values = [value for value in _list(schema["enum"]) if value is not None]
        nullable["enum"] = [*values, None]
    return nullable


def _keep_limits(tool: str, schema: Schema) -> None:
    """Refuse a strict schema that is too large, at the place where it gets so."""
    objects: set[Place] = set()
    properties = values = text = 0
    for place, here in walk(schema):
        enum = [str(value) for value in _list(here.get("enum"))]
        names = _names(here)
        if "object" in types(here):
            objects.add(place)
        properties += len(_mapping(here.get("properties", {})))
        values += len(enum)
        text += sum(map(len, (*enum, *names, str(here.get("const", "")))))
        depth = sum(place[:end] in objects for end in range(len(place) + 1))
        too_long = len(enum) > LONG_ENUM and sum(map(len, enum)) > MAX_LONG_ENUM_TEXT
        for limit, keyword, exceeded in (
            (f"{MAX_PROPERTIES} properties", "properties", properties > MAX_PROPERTIES),
            (f"{MAX_DEPTH} levels of objects", "properties", depth > MAX_DEPTH),
            (f"{MAX_TEXT} characters of names and values", "properties", text > MAX_TEXT),
            (f"{MAX_ENUM_VALUES} values of enums", "enum", values > MAX_ENUM_VALUES),
            (f"{MAX_LONG_ENUM_TEXT} characters of a long enum", "enum", too_long),
        ):
            if exceeded:
                OPENAI_STRICT.refuse(tool, place, keyword, f"more than {limit}")


# --- shared -------------------------------------------------------------------------------------


def _lone_reference(
    dialect: Dialect,
    tool: str,
    here: dict[str, JsonValue],
    place: Place,
    *,
    beside: Sequence[str] = (),
) -> dict[str, JsonValue]:
    """A reference that bears no neighbours: a description goes around it."""
    around = {key: here[key] for key in here if key in _ANNOTATIONS}
    kept = {key: here[key] for key in here if key == "$ref" or key in beside}
    others = here.keys() - around.keys() - kept.keys()
    if others:
        names = ", ".join(sorted(others))
        dialect.refuse(tool, place, "$ref", f"beside {names}; put them into the definition")
    return {"anyOf": [kept], **around} if around else kept


def _type_of_values(
    dialect: Dialect, tool: str, here: Schema, place: Place
) -> str | list[JsonValue]:
    """The type of the values of `enum` or `const`, for providers that want it said."""
    keyword: Literal["const", "enum"] = "const" if "const" in here else "enum"
    values = [here["const"]] if keyword == "const" else _list(here["enum"])
    kinds = sorted({_type_of(value) for value in values} - {"null"})
    if kinds == ["integer", "number"]:
        kinds = ["number"]
    if "" in kinds:
        dialect.refuse(tool, place, keyword, "objects and arrays are not supported there")
    if len(kinds) > 1:
        dialect.refuse(tool, place, keyword, "values of several types: write anyOf, one type each")
    if None not in values:
        return kinds[0]
    return [*kinds, "null"] if kinds else "null"


def _type_of(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case _:
            return ""


def _names(schema: Schema) -> list[str]:
    """The names of a schema's properties and definitions."""
    return [
        str(place[1]) for place, _ in children(schema) if place[0] in ("properties", *_DEFINITIONS)
    ]


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
