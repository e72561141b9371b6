"""What must be true of a tool's calls before they are made: its business rules, its confirmation.

A rule about an argument that does not exist, or of a kind that it never has, would never be broken
or always: neither is found out later.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from turnstream.catalog.schemas import UnusableSchema, accepts, properties, required
from turnstream.catalog.templates import placeholders
from turnstream.catalog.tool_checks import types_of
from turnstream.core.business_rules import (
    BusinessRule,
    LookedUpRangeRule,
    LookupRule,
    OrderRule,
    RangeRule,
    RightRule,
    shared_path,
)
from turnstream.core.definitions import Catalog, Tool

Place: TypeAlias = tuple[str | int, ...]
Problem: TypeAlias = tuple[Place, str]

_NUMBERS: Final = frozenset({"integer", "number"})


def call_problems(catalog: Catalog) -> Iterator[Problem]:
    """Everything that is wrong with the rules and confirmations of a catalog's tools."""
    for name, tool in catalog.tools.items():
        for index, rule in enumerate(tool.rules):
            yield from _rule(catalog, ("tools", name, "rules", index), tool, rule)
        if tool.confirm is not None:
            yield from _confirm(catalog, name, tool, tool.confirm)


def _rule(catalog: Catalog, place: Place, tool: Tool, rule: BusinessRule) -> Iterator[Problem]:
    match rule:
        case RangeRule():
            yield from _range(place, tool, rule)
        case OrderRule():
            yield from _order(place, tool, rule)
        case RightRule():
            yield from _right(place, tool, rule)
        case LookupRule():
            yield from _lookup(catalog, place, tool, rule)
        case LookedUpRangeRule():
            yield from _looked_up_range(catalog, place, tool, rule)


def _declared(place: Place, tool: Tool, argument: str) -> Iterator[Problem]:
    declared = properties(tool.input_schema)
    if argument not in declared:
        allowed = ", ".join(declared) or "there is none"
        yield place, f"expected an argument of the tool ({allowed}), got {argument!r}"


def _kind(tool: Tool, argument: str) -> str | None:
    """How an argument is compared: as a number, as a text; None where it cannot be."""
    types = types_of(properties(tool.input_schema).get(argument)) - {"null"}
    if types and types <= _NUMBERS:
        return "number"
    return "text" if types == {"string"} else None


def _range(place: Place, tool: Tool, rule: RangeRule) -> Iterator[Problem]:
    unknown = list(_declared((*place, "argument"), tool, rule.argument))
    yield from unknown
    if unknown:
        return
    kind = _kind(tool, rule.argument)
    if kind is None:
        yield (
            (*place, "argument"),
            f"expected an argument with an order: integer, number or string, not {rule.argument!r}",
        )
        return
    bounds = [bound for bound in (rule.minimum, rule.maximum) if bound is not None]
    if not bounds:
        yield place, "expected minimum, maximum or both"
    elif any(isinstance(bound, str) != (kind == "text") for bound in bounds):
        yield place, f"expected bounds that are a {kind}, as {rule.argument!r} is"
    elif bounds != sorted(bounds):
        yield (*place, "maximum"), "expected at least minimum"


def _order(place: Place, tool: Tool, rule: OrderRule) -> Iterator[Problem]:
    unknown = [
        *_declared((*place, "lower"), tool, rule.lower),
        *_declared((*place, "upper"), tool, rule.upper),
    ]
    yield from unknown
    if unknown:
        return
    lower, upper = _kind(tool, rule.lower), _kind(tool, rule.upper)
    if rule.lower == rule.upper or lower is None or lower != upper:
        yield place, "expected two arguments that are both numbers, or both strings"


def _right(place: Place, tool: Tool, rule: RightRule) -> Iterator[Problem]:
    unknown = list(_declared((*place, "argument"), tool, rule.argument))
    yield from unknown
    if unknown:
        return
    try:
        is_accepted = accepts(tool.input_schema, rule.argument)
    except UnusableSchema:
        return
    for index, value in enumerate(rule.values):
        if not is_accepted(value) and not is_accepted([value]):
            yield (
                (*place, "values", index),
                f"the schema of {rule.argument!r} never allows {value!r}",
            )


def _lookup(catalog: Catalog, place: Place, tool: Tool, rule: LookupRule) -> Iterator[Problem]:
    yield from _declared((*place, "argument"), tool, rule.argument)
    unknown = list(_looked_up_by(catalog, place, rule.tool))
    yield from unknown
    if not unknown:
        yield from _path((*place, "path"), catalog.tools[rule.tool], rule.tool, rule.path)


def _looked_up_range(
    catalog: Catalog, place: Place, tool: Tool, rule: LookedUpRangeRule
) -> Iterator[Problem]:
    bounds: dict[Place, str] = {
        (*place, key): path
        for key, path in (("minimum", rule.minimum), ("maximum", rule.maximum))
        if path is not None
    }
    picking: dict[Place, str] = {(*place, "where", name): path for name, path in rule.where.items()}
    unknown = [
        *_declared((*place, "argument"), tool, rule.argument),
        *_looked_up_by(catalog, place, rule.tool),
    ]
    for name in rule.where:
        unknown += _picked_by((*place, "where", name), tool, name)
    if not bounds:
        unknown.append((place, "expected minimum, maximum or both"))
    looked_up = catalog.tools.get(rule.tool)
    if looked_up is not None and looked_up.effect == "read":
        for here, path in (bounds | picking).items():
            unknown += _path(here, looked_up, rule.tool, path)
    yield from unknown
    if looked_up is None or unknown:
        return
    arguments, schema = properties(tool.input_schema), dict(looked_up.result_schema)
    if not _may_be_amount(arguments[rule.argument]):
        yield (
            (*place, "argument"),
            f"expected an argument that holds amounts (numbers or texts), not {rule.argument!r}",
        )
    depth = len(shared_path(rule))
    for here, path in (bounds | picking).items():
        yield from _one_of_each_item(here, schema, path.split("."), depth)
    for here, path in bounds.items():
        if not _may_be_amount(_at(schema, path.split("."))):
            yield here, f"expected amounts: integer, number or string, got {path!r}"
    for name, path in rule.where.items():
        given, held = _equality(arguments[name]), _equality(_at(schema, path.split(".")))
        if given and held and given.isdisjoint(held):
            yield (
                (*place, "where", name),
                f"{name!r} and {path!r} are never equal: their schemas have no type in common",
            )


def _looked_up_by(catalog: Catalog, place: Place, name: str) -> Iterator[Problem]:
    other = catalog.tools.get(name)
    if other is None:
        allowed = ", ".join(sorted(catalog.tools))
        yield (*place, "tool"), f"expected one of tools ({allowed}), got {name!r}"
    elif other.effect != "read":
        yield (*place, "tool"), f"expected a tool that only reads, {name!r} writes"


def _picked_by(place: Place, tool: Tool, argument: str) -> Iterator[Problem]:
    """What picks the bound must be in every call, or some would have none."""
    unknown = list(_declared(place, tool, argument))
    yield from unknown
    if not unknown and argument not in required(tool.input_schema):
        yield place, f"expected an argument that is required, {argument!r} may be left out"


def _path(place: Place, other: Tool, name: str, path: str) -> Iterator[Problem]:
    if _at(dict(other.result_schema), path.split(".")) is None:
        yield place, f"expected a path through the result_schema of {name!r}, got {path!r}"


def _at(schema: JsonValue, path: Sequence[str]) -> dict[str, JsonValue] | None:
    """The schema that a path leads to; the items of an array are entered by themselves."""
    if not isinstance(schema, dict):
        return None
    if "array" in types_of(schema):
        return _at(schema.get("items"), path)
    if not path:
        return schema
    declared = properties(schema)
    return _at(declared[path[0]], path[1:]) if path[0] in declared else None


def _one_of_each_item(
    place: Place, schema: JsonValue, path: list[str], depth: int
) -> Iterator[Problem]:
    """Several values would each be one, and nobody could say which is meant."""
    for length in range(depth + 1, len(path) + 1):
        if "array" in types_of(_property(schema, path[:length])):
            several = ".".join(path[:length])
            yield place, f"expected one value of each item that where picks: {several!r} is a list"
            return


def _property(schema: JsonValue, path: Sequence[str]) -> JsonValue:
    """The schema of a property itself, an array where it is one."""
    holder = _at(schema, path[:-1])
    return None if holder is None else properties(holder).get(path[-1])


def _may_be_amount(schema: JsonValue) -> bool:
    """Whether a schema allows numbers, or texts that may be ones; a schema without a type may."""
    types = types_of(schema) - {"null"}
    formatted = isinstance(schema, dict) and "format" in schema
    return types <= _NUMBERS | {"string"} and not formatted


def _equality(schema: JsonValue) -> frozenset[str]:
    """The types under which values may be equal; an integer may equal a number."""
    return frozenset("number" if one in _NUMBERS else one for one in types_of(schema)) - {"null"}


def _confirm(catalog: Catalog, name: str, tool: Tool, field: str) -> Iterator[Problem]:
    place: Place = ("tools", name, "confirm")
    entry = catalog.fields.get(field)
    if entry is None or entry.type != "boolean":
        yield place, f"expected a field with type: boolean, got {field!r}"
        return
    where: Place = ("fields", field, "question_for", name)
    shown = entry.question_for.get(name)
    if shown is None:
        shown, where = entry.question, ("fields", field, "question")
    if shown is None:
        yield ("fields", field), f"expected a question: tool {name!r} is confirmed by it"
        return
    needed = required(tool.input_schema)
    allowed = ", ".join(needed) or "there is none"
    for locale, text in shown.items():
        names, faults = placeholders(text)
        for fault in faults:
            yield (*where, locale), fault
        for placeholder in sorted(names - set(needed)):
            yield (
                (*where, locale),
                f"{{{placeholder}}}: expected a required argument of {name!r} ({allowed})",
            )
    if any((source.field or argument) == field for argument, source in tool.arguments.items()):
        yield place, f"{field!r} is an argument as well; a yes to one would be read as the other"
