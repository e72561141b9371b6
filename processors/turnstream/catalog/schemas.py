r"""The JSON Schemas of tools: JSON Schema 2020-12, closed to the network, quick to apply.

``pattern`` follows ECMA-262: ``$`` is the very end and ``\d`` is ``[0-9]``. It is matched in
linear time, so look-around and back-references are refused at load. ``format`` is enforced, for
arguments and results; a format that JSON Schema 2020-12 does not define is passed over, and linted.
A ``$ref`` leads inside its own schema only.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Final

import jsonschema_rs
from pydantic import JsonValue

from turnstream.core.definitions import Catalog
from turnstream.core.ruleset import ArgumentCheck, ArgumentFault
from turnstream.core.schema_tree import LISTS, NESTED, OF_SCHEMAS, Schema, pointer, walk

_MASK: Final = "the value"
"""Stands for values in messages, which reach logs and models: a customer's data must not."""


_PLAIN: Final = frozenset(
    """
    $anchor $comment $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary const contentEncoding
    contentMediaType default dependentRequired deprecated description enum examples exclusiveMaximum
    exclusiveMinimum format maxContains maxItems maxLength maxProperties maximum minContains
    minItems minLength minProperties minimum multipleOf pattern readOnly required title type
    uniqueItems writeOnly
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
_KEYWORDS: Final = OF_SCHEMAS | LISTS | NESTED | _PLAIN
"""Every keyword of JSON Schema 2020-12, and `definitions`, which references may lead to."""


class UnusableSchema(ValueError):
    """A schema that is not valid JSON Schema 2020-12, or needs what we do not allow."""

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.path = path
        """Keys and indexes inside the schema."""


def validator(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    """Compile a schema.

    Raises:
        UnusableSchema: it cannot be used; says where inside the schema.
    """
    try:
        return jsonschema_rs.Draft202012Validator(
            dict(schema),
            validate_formats=True,
            offline=True,
            mask=_MASK,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except jsonschema_rs.ValidationError as error:
        raise UnusableSchema(tuple(error.instance_path), _in_words(error.message)) from error


def argument_check(schema: Schema) -> ArgumentCheck:
    """A validator of one tool's arguments that names the first fault, or None.

    Raises:
        UnusableSchema: as :func:`validator`.
    """
    compiled = validator(schema)

    def check(arguments: Mapping[str, JsonValue]) -> ArgumentFault | None:
        if compiled.is_valid(arguments):
            return None
        for error in compiled.iter_errors(arguments):
            return ArgumentFault(
                path=pointer(tuple(error.instance_path)),
                keyword=str(error.schema_path[-1]) if error.schema_path else "",
                message=error.message,
            )
        return None

    return check


def argument_checks(catalog: Catalog) -> dict[str, ArgumentCheck]:
    """Tool name to the validator of its arguments."""
    return {name: argument_check(tool.input_schema) for name, tool in catalog.tools.items()}


def answer_checks(catalog: Catalog) -> dict[str, ArgumentCheck]:
    """Agent to the validator of its final answer, for those that declare a schema for it."""
    return {
        name: argument_check(agent.final_answer.content)
        for name, agent in catalog.agents.items()
        if agent.final_answer is not None
    }


def properties(schema: Schema) -> dict[str, JsonValue]:
    """The top-level properties of an object schema."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def required(schema: Schema) -> tuple[str, ...]:
    """The top-level required properties of an object schema."""
    found = schema.get("required")
    return tuple(str(name) for name in found) if isinstance(found, list) else ()


def unknown_keywords(schema: Schema) -> Iterator[tuple[tuple[str | int, ...], str, str | None]]:
    """Keys that are no keywords, so that nothing heeds them.

    Names that begin with ``x-`` are somebody's own.

    Yields:
        The place of the schema that holds it, the key, and the keyword that may be meant.
    """
    for place, here in walk(schema):
        for key in here:
            if key not in _KEYWORDS and not key.startswith("x-"):
                near = difflib.get_close_matches(key, _KEYWORDS, n=1)
                yield place, key, near[0] if near else None


def unknown_formats(schema: Schema) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Values of `format` that are not of JSON Schema 2020-12, so that nothing enforces them.

    Yields:
        The place of the keyword, and its value.
    """
    for place, here in walk(schema):
        form = here.get("format")
        if isinstance(form, str) and not _is_enforced(form):
            yield (*place, "format"), form


@cache
def _is_enforced(form: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator(
            {"format": form}, validate_formats=True, ignore_unknown_formats=False
        )
    except jsonschema_rs.ValidationError:
        return False
    return True


def accepts(schema: Schema, name: str) -> Callable[[JsonValue], bool]:
    """Whether a value satisfies one property of a schema, taken on its own.

    Raises:
        UnusableSchema: as :func:`validator`.
    """
    alone: dict[str, JsonValue] = {
        "properties": {name: properties(schema)[name]},
        **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
    }
    compiled = validator(alone)
    return lambda value: compiled.is_valid({name: value})


def _in_words(message: str) -> str:
    return (
        f"not a usable JSON Schema 2020-12: {message.splitlines()[0]}; patterns follow ECMA-262 "
        "without look-around and back-references, and references stay inside the schema"
    )
