"""Amounts with an upper bound and no lower one: a negative amount passes, and goes the other way.

A refund of -500 is below every maximum. Where a service books it, the customer has paid, or the
next bound has grown.
"""

from collections.abc import Iterator
from typing import Final, TypeGuard

from pydantic import JsonValue

from turnstream.catalog.schemas import UnusableSchema, accepts, properties
from turnstream.core.business_rules import BusinessRule, LookedUpRangeRule, RangeRule
from turnstream.core.definitions import Catalog, Tool
from turnstream.core.schema_tree import Place

_NEGATIVE: Final[tuple[JsonValue, ...]] = (
    -2_520_000_000_000,  # below every minimum that somebody means, and a multiple of most steps
    "-1",
    "-1.0",
    "-1.00",
)
"""Values of which a schema without a lower bound takes one. Texts may be of a fixed form."""


def lower_bound_advice(catalog: Catalog) -> Iterator[tuple[Place, str]]:
    """Rules that bound an amount from above alone: the place, and what to do."""
    for name, tool in catalog.tools.items():
        for index, rule in enumerate(tool.rules):
            if _bounds_above(rule) and not _is_bounded_below(tool, rule.argument):
                message = (
                    f"a negative {rule.argument!r} passes this maximum: give it a minimum here, in "
                    "a rule of kind range or in its schema"
                )
                yield ("tools", name, "rules", index, "maximum"), message


def _bounds_above(rule: BusinessRule) -> TypeGuard[RangeRule | LookedUpRangeRule]:
    """Whether a rule has an upper bound for amounts; a text is bounded as a text."""
    match rule:
        case RangeRule():
            return isinstance(rule.maximum, int | float)
        case LookedUpRangeRule():
            return rule.maximum is not None
    return False


def _is_bounded_below(tool: Tool, argument: str) -> bool:
    if any(
        isinstance(rule, RangeRule | LookedUpRangeRule)
        and rule.argument == argument
        and rule.minimum is not None
        for rule in tool.rules
    ):
        return True
    if argument not in properties(tool.input_schema):
        return True  # a fault of its own
    try:
        is_accepted = accepts(tool.input_schema, argument)
    except UnusableSchema:
        return True
    return not any(is_accepted(value) for value in _NEGATIVE)
