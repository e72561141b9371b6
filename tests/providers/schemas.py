"""Judging requests by the types that providers publish in their SDKs, and by rules beside them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from tests.providers.server import require, strictly, wrong

SCHEMA_RULE: Final = "the SDK's types"

TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
"""Names of tools, everywhere."""

_STRICT: Final = frozenset(
    """
    type properties required additionalProperties items enum const anyOf $ref $defs definitions
    description title pattern format multipleOf minimum maximum exclusiveMinimum exclusiveMaximum
    minItems maxItems minLength maxLength
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
"""Keywords that OpenAI takes in strict mode. The last two are not in its list, but the converter of
its own SDK passes them on (openai-node, ``src/lib/transform.ts``)."""


def strict_validator(shape: Any) -> SchemaValidator:
    """A validator of a TypedDict of an SDK that takes no unknown keys and looks into every list.

    As pydantic reads them, unknown keys pass, and `Iterable` is not looked into before it is used.
    """
    seen: dict[int, Any] = {}

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            if id(node) in seen:
                return seen[id(node)]
            copy: dict[str, Any] = {}
            seen[id(node)] = copy
            copy.update({key: walk(value) for key, value in node.items()})
            if copy.get("type") == "generator":
                copy["type"] = "list"
            if copy.get("type") == "typed-dict":
                copy["extra_behavior"] = "forbid"
            return copy
        return type(node)(map(walk, node)) if isinstance(node, list | tuple) else node

    return SchemaValidator(walk(TypeAdapter(shape).core_schema))


def judged(validator: SchemaValidator, body: bytes) -> None:
    """Refuse a body that the SDK's types do not allow."""
    try:
        validator.validate_json(body, strict=True)
    except ValidationError as error:
        # Of a union every member speaks: the places that go deepest say what is really wrong.
        found = sorted(error.errors(), key=lambda one: -len(one["loc"]))[:4]
        wrong(SCHEMA_RULE, [(".".join(map(str, one["loc"])), one["msg"]) for one in found])


def keys_within(value: Any, allowed: Iterable[str], where: str) -> None:
    """Refuse keys that a provider does not document."""
    require(isinstance(value, dict), SCHEMA_RULE, f"{where} is no object")
    unknown = set(value) - set(allowed)
    require(not unknown, SCHEMA_RULE, f"{where} has unknown keys {sorted(unknown)}")


def tool_names(names: Sequence[str], *, longest: int = 64) -> None:
    """Refuse names of tools that the provider does not take, and names that are there twice."""
    for name in names:
        fits = TOOL_NAME.fullmatch(name) and len(name) <= longest
        require(fits, "names of tools", name)
    require(len(set(names)) == len(names), "each tool once", names)


def object_text(text: str, where: str) -> None:
    """Refuse arguments that are no JSON object: servers that parse the history fail on them."""
    try:
        value = strictly(text)
    except ValueError as error:
        wrong("arguments of earlier calls are JSON objects", f"{where}: {error}")
    require(
        isinstance(value, dict), "arguments of earlier calls are JSON objects", f"{where}: {text}"
    )


def strict_schema(schema: Any, where: str = "") -> None:
    """Refuse what OpenAI's strict mode does not take."""
    if where == "":
        require(
            isinstance(schema, dict) and schema.get("type") == "object",
            "strict schemas are objects at the top",
            schema,
        )
        require("anyOf" not in schema, "strict schemas are objects at the top", schema)
    require(isinstance(schema, dict), "strict schemas are objects", f"{where}: {schema}")
    unknown = set(schema) - _STRICT
    require(not unknown, "keywords of strict schemas", f"{where}: {sorted(unknown)}")
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        require(
            schema.get("additionalProperties") is False, "strict objects are closed", where or "/"
        )
        missing = set(schema.get("properties", {})) - set(schema.get("required", []))
        require(not missing, "strict objects require every property", f"{where}: {missing}")
    for keyword in ("properties", "$defs", "definitions"):
        for name, inner in schema.get(keyword, {}).items():
            strict_schema(inner, f"{where}/{keyword}/{name}")
    for at, inner in enumerate(schema.get("anyOf", ())):
        strict_schema(inner, f"{where}/anyOf/{at}")
    if "items" in schema:
        strict_schema(schema["items"], f"{where}/items")


def answered(asked: Sequence[str], given: Sequence[str], where: str) -> None:
    """Refuse calls without a result, results without a call, and two results for one call."""
    require(len(set(asked)) == len(asked), "ids of calls are unique", f"{where}: {asked}")
    require(len(set(given)) == len(given), "one result for each call", f"{where}: {given}")
    require(not set(given) - set(asked), "each result has its call", f"{where}: {asked}, {given}")
    require(not set(asked) - set(given), "each call is answered", f"{where}: {asked}, {given}")
