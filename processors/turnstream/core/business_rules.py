"""The third gate: what JSON Schema cannot say of a call's arguments, declared per tool.

A schema knows one value at a time. A rule knows two of them, the customer's rights, or what another
tool has found.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Final, Literal, assert_never

from pydantic import Field, JsonValue

from turnstream.core.definition import Definition
from turnstream.core.evolution import dataclass


class RangeRule(Definition):
    """A value lies between two bounds, both included."""

    kind: Literal["range"]
    argument: str
    """The argument that it is about."""
    minimum: float | str | None = None
    """A number, or a text that is compared as text: dates as ``2026-01-31`` are."""
    maximum: float | str | None = None
    """The same."""


class OrderRule(Definition):
    """One argument is not greater than another: the first day of a period, and its last."""

    kind: Literal["order"]
    lower: str
    """The argument that must not be greater."""
    upper: str
    """The argument that it is compared with: both numbers, or both texts."""


class RightRule(Definition):
    """Some values of an argument take a permission of the session."""

    kind: Literal["right"]
    argument: str
    """The argument that it is about."""
    values: tuple[str, ...] = Field(min_length=1)
    """Texts; of a list, each item counts."""
    permission: str
    """Without it the call is refused by rule `missing_permission`."""


class LookupRule(Definition):
    """A value is one that another tool has found in this conversation: a foreign key."""

    kind: Literal["lookup"]
    argument: str
    """The argument that it is about."""
    tool: str
    """The look-up tool."""
    path: str
    """Where its result holds the values: ``invoices.id`` is the `id` of each of `invoices`."""


class LookedUpRangeRule(Definition):
    """An amount lies between bounds that another tool has found: a refund, and its order's total.

    Amounts are numbers, or texts of decimal numbers such as ``12.50``, and are compared exactly.
    Nothing else is one: where an amount or its bound cannot be read, no call is made. A write uses
    what bounds it up, for itself and for every other write that is bounded by the same tool: after
    it the bound must be looked up again, and should be what is left then. So of several writes in
    one reply that are bounded by the same item only the first is made, and none beside a call that
    looks its bound up.
    """

    kind: Literal["looked_up_range"]
    argument: str
    """The argument that it is about."""
    tool: str
    """The look-up tool."""
    minimum: str | None = None
    """Where its result holds the least amount, included: ``orders.fee``."""
    maximum: str | None = None
    """Where its result holds the greatest amount, included: ``orders.total``."""
    where: dict[str, str] = {}  # noqa: RUF012 - pydantic gives each model its own
    """Argument to where the result holds the same value: with ``order_id: orders.id`` the bounds
    are those of the order that the call names. Of several results the newest that has it counts;
    without this, simply the newest."""


BusinessRule = Annotated[
    RangeRule | OrderRule | RightRule | LookupRule | LookedUpRangeRule,
    Field(discriminator="kind"),
]

_DECIMAL: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")
"""A text that is an amount. No amount has more digits, and far longer ones cannot be read."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a call breaks."""

    argument: str
    message: str
    permission: str | None = None
    """The permission that the session lacks, where that is what was broken."""
    unfounded: bool = False
    """Whether nothing has been found yet that the value could be held against: it may be right, and
    asking the customer for another one is of no use."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What an amount of a call is held against: results of a tool, or an item that they hold."""

    tool: str
    """The look-up tool."""
    picked_by: Mapping[str, JsonValue]
    """Where a result holds a value of the item, to that value."""

    def may_be(self, other: "Bound") -> bool:
        """Whether both may be the same: nothing that both are picked by tells them apart."""
        return self.tool == other.tool and all(
            _same(value, other.picked_by[path])
            for path, value in self.picked_by.items()
            if path in other.picked_by
        )


def bounds_of(
    rules: Sequence[BusinessRule], arguments: Mapping[str, JsonValue]
) -> tuple[Bound, ...]:
    """What the amounts of a call are held against."""
    return tuple(
        Bound(rule.tool, {path: arguments.get(name) for name, path in rule.where.items()})
        for rule in rules
        if isinstance(rule, LookedUpRangeRule) and arguments.get(rule.argument) is not None
    )


def broken_rule(
    rules: Sequence[BusinessRule],
    arguments: Mapping[str, JsonValue],
    *,
    permissions: Sequence[str],
    found: Mapping[str, Sequence[Mapping[str, JsonValue]]],
    fresh: Mapping[str, Sequence[Mapping[str, JsonValue]]],
) -> Broken | None:
    """The first rule that a call breaks.

    Args:
        rules: of the tool.
        arguments: of the call, valid under its schema. A rule about an argument that is absent
            says nothing.
        permissions: of the session.
        found: tool to its results that may be used, newest last.
        fresh: those that no write has used up since, which alone bound an amount.
    """
    for rule in rules:
        match rule:
            case RangeRule():
                broken = _out_of_range(rule, arguments)
            case OrderRule():
                broken = _out_of_order(rule, arguments)
            case RightRule():
                broken = _without_right(rule, arguments, permissions)
            case LookupRule():
                broken = _not_found(rule, arguments, found)
            case LookedUpRangeRule():
                broken = _out_of_looked_up_range(rule, arguments, fresh)
            case _ as unreachable:
                assert_never(unreachable)
        if broken is not None:
            return broken
    return None


def _out_of_range(rule: RangeRule, arguments: Mapping[str, JsonValue]) -> Broken | None:
    value = arguments.get(rule.argument)
    if value is None:
        return None
    if rule.minimum is not None and not _not_above(rule.minimum, value):
        return Broken(rule.argument, f"must not be below {_shown(rule.minimum)}")
    if rule.maximum is not None and not _not_above(value, rule.maximum):
        return Broken(rule.argument, f"must not be above {_shown(rule.maximum)}")
    return None


def _shown(bound: float | str) -> str:
    return bound if isinstance(bound, str) else f"{bound:g}"


def _out_of_order(rule: OrderRule, arguments: Mapping[str, JsonValue]) -> Broken | None:
    lower, upper = arguments.get(rule.lower), arguments.get(rule.upper)
    if lower is None or upper is None or _not_above(lower, upper):
        return None
    return Broken(rule.lower, f"must not be above {rule.upper}")


def _not_above(lower: JsonValue, upper: JsonValue) -> bool:
    """Whether two values of one kind are in order; values of two kinds never are."""
    if isinstance(lower, str) and isinstance(upper, str):
        return lower <= upper
    if isinstance(lower, bool) or isinstance(upper, bool):
        return False
    if isinstance(lower, int | float) and isinstance(upper, int | float):
        return lower <= upper
    return False


def _without_right(
    rule: RightRule, arguments: Mapping[str, JsonValue], permissions: Sequence[str]
) -> Broken | None:
    given = arguments.get(rule.argument)
    items = given if isinstance(given, list) else [given]
    if rule.permission in permissions or not any(item in rule.values for item in items):
        return None
    return Broken(rule.argument, "needs a permission that is not there", rule.permission)


def _not_found(
    rule: LookupRule,
    arguments: Mapping[str, JsonValue],
    found: Mapping[str, Sequence[Mapping[str, JsonValue]]],
) -> Broken | None:
    value = arguments.get(rule.argument)
    if value is None:
        return None
    results = found.get(rule.tool, ())
    wanted = rule.path.split(".")
    if any(_same(value, one) for result in results for one in _at(result, wanted)):
        return None
    if not results:
        message = f"must come from a result of {rule.tool}: call that first"
        return Broken(rule.argument, message, unfounded=True)
    return Broken(rule.argument, f"is not among what {rule.tool} found")


def _out_of_looked_up_range(
    rule: LookedUpRangeRule,
    arguments: Mapping[str, JsonValue],
    found: Mapping[str, Sequence[Mapping[str, JsonValue]]],
) -> Broken | None:
    value = arguments.get(rule.argument)
    if value is None:
        return None
    amount = _amount(value)
    if amount is None:
        return Broken(rule.argument, "must be a decimal number, such as 12.50")
    items = _bounding_items(rule, arguments, found.get(rule.tool, ()))
    if not items:
        same = f" with this {', '.join(rule.where)}" if rule.where else ""
        message = f"is bounded by a result of {rule.tool}{same}: call that first"
        return Broken(rule.argument, message, unfounded=True)
    for path, is_least in ((rule.minimum, True), (rule.maximum, False)):
        if path is None:
            continue
        within = path.split(".")[len(shared_path(rule)) :]
        bounds = [_amount(one) for item in items for one in _at(item, within)]
        known = [bound for bound in bounds if bound is not None]
        if not bounds or len(known) < len(bounds):
            message = f"has no bound: {rule.tool} found no number as {path}"
            return Broken(rule.argument, message, unfounded=True)
        if amount < max(known) if is_least else amount > min(known):
            fault = "below" if is_least else "above"
            return Broken(rule.argument, f"must not be {fault} the {path} that {rule.tool} found")
    return None


def shared_path(rule: LookedUpRangeRule) -> tuple[str, ...]:
    """Where a result holds the items that have both the bounds and what they are picked by."""
    if not rule.where:
        return ()
    paths = [path for path in (rule.minimum, rule.maximum, *rule.where.values()) if path]
    shared: list[str] = []
    for names in zip(*(path.split(".")[:-1] for path in paths), strict=False):
        if len(set(names)) > 1:
            break
        shared.append(names[0])
    return tuple(shared)


def _bounding_items(
    rule: LookedUpRangeRule,
    arguments: Mapping[str, JsonValue],
    results: Sequence[Mapping[str, JsonValue]],
) -> list[JsonValue]:
    """The items of the newest result that has some for these arguments.

    An item that is there twice bounds by both: nobody can say which is meant.
    """
    shared = shared_path(rule)
    for result in reversed(results):
        items = [item for item in _at(result, shared) if _is_meant(item, rule, arguments)]
        if items:
            return items
    return []


def _is_meant(item: JsonValue, rule: LookedUpRangeRule, arguments: Mapping[str, JsonValue]) -> bool:
    depth = len(shared_path(rule))
    return all(
        name in arguments
        and arguments[name] is not None
        and any(_same(arguments[name], one) for one in _at(item, path.split(".")[depth:]))
        for name, path in rule.where.items()
    )


def _amount(value: JsonValue) -> Decimal | None:
    """A number as it is written, so that 0.1 is a tenth; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        return None
    amount = Decimal(str(value))
    return amount if amount.is_finite() else None


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Equality of JSON: true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _at(value: JsonValue | Mapping[str, JsonValue], path: Sequence[str]) -> Iterator[JsonValue]:
    """The values at a path; a list stands for each of its items."""
    if isinstance(value, list):
        for one in value:
            yield from _at(one, path)
    elif not path:
        yield value  # type: ignore[misc]
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _at(value[path[0]], path[1:])
