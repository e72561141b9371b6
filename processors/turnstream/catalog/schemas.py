r"""The JSON Schemas of tools: JSON Schema 2020-12, closed to the network, quick to apply.

``pattern`` follows ECMA-262: ``$`` is the very end and ``\d`` is ``[0-9]``. It is matched in
linear time, so look-around and back-references are refused at load. ``format`` is enforced. A
``$ref`` leads inside its own schema only.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import jsonschema_rs
from pydantic import JsonValue

from turnstream.core.definitions import Catalog
from turnstream.core.ruleset import ArgumentCheck, ArgumentFault

Schema: TypeAlias = Mapping[str, JsonValue]

_MASK: Final = "the value"
"""Stands for values in messages, which reach logs and models: a customer's data must not."""


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
                path="".join(f"/{part}" for part in error.instance_path),
                keyword=str(error.schema_path[-1]) if error.schema_path else "",
                message=error.message,
            )
        return None

    return check


def argument_checks(catalog: Catalog) -> dict[str, ArgumentCheck]:
    """Tool name to the validator of its arguments."""
    return {name: argument_check(tool.input_schema) for name, tool in catalog.tools.items()}


def properties(schema: Schema) -> dict[str, JsonValue]:
    """The top-level properties of an object schema."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def required(schema: Schema) -> tuple[str, ...]:
    """The top-level required properties of an object schema."""
    found = schema.get("required")
    return tuple(str(name) for name in found) if isinstance(found, list) else ()


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
