"""Whether a tool used what it was asked to use, by what it shows itself.

A service that shows its arguments shows them as it holds them: with null for what it was not given,
with defaults filled in, a whole number with or without a fraction. None of that is another call.
Whatever was sent must be there as it was sent.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.carried import canonical
from turnstream.core.schema_readings import Reading, declared, inside, readings
from turnstream.core.schema_tree import Place, Schema, pointer

IDEMPOTENCY_ARGUMENT: Final = "idempotency_key"
"""What a tool may show beside the arguments that it used: the key that came with them."""


def unlike_used(
    arguments: Mapping[str, JsonValue], used: Mapping[str, JsonValue], *, schema: Schema, key: str
) -> tuple[str, ...]:
    """Where a tool says that it used something else than a call's arguments.

    Args:
        arguments: the call's; they satisfy the schema, so none that is absent is required.
        used: the tool's words. It may show the call's key, and for what was not sent null and
            defaults of the schema, at any depth.
        schema: its input schema.
        key: the call's.

    Returns:
        JSON pointers.
    """
    told = dict(used)
    if IDEMPOTENCY_ARGUMENT not in arguments and told.get(IDEMPOTENCY_ARGUMENT) == key:
        del told[IDEMPOTENCY_ARGUMENT]
    found = _Comparison(schema).unlike(dict(arguments), told, dict(schema), ())
    return tuple(pointer(place) for place in found)


class _Comparison:
    """Compares by one schema."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def unlike(
        self, asked: JsonValue, told: JsonValue, schema: JsonValue, place: Place
    ) -> Iterator[Place]:
        """Places where a tool shows something else than it was asked to use."""
        ways = readings(schema, asked, root=self._root)
        if isinstance(asked, dict) and isinstance(told, dict):
            for name in {**asked, **told}:
                here = (*place, name)
                if name not in told:
                    yield here
                elif name in asked:
                    yield from self.unlike(asked[name], told[name], inside(ways, name), here)
                elif not self._says_nothing(name, told[name], ways):
                    yield here
        elif isinstance(asked, list) and isinstance(told, list) and len(asked) == len(told):
            for index, (one, other) in enumerate(zip(asked, told, strict=True)):
                yield from self.unlike(one, other, inside(ways, index), (*place, index))
        elif not _same(asked, told):
            yield place

    def _says_nothing(self, name: str, value: JsonValue, ways: list[Reading]) -> bool:
        """Whether a value for what was not sent is null, a default, or an object of these alone."""
        if value is None:
            return True
        for schema in (one for reading in ways for one in declared(reading, name)):
            meant = readings(schema, value, root=self._root)
            parts = [part for reading in meant for part in reading]
            absent = [part["default"] for part in parts if "default" in part]
            if not absent and isinstance(value, dict):
                absent = [{}]
            if any(not list(self.unlike(one, value, schema, ())) for one in absent):
                return True
        return False


def _same(asked: JsonValue, told: JsonValue) -> bool:
    """Whether two values are the same, of which at most one is an object or a list.

    Beyond 2**53 a float's digits say one integer and its exact value another: services show either.
    """
    if canonical(asked) == canonical(told):
        return True
    numbers = not (isinstance(asked, bool) or isinstance(told, bool))
    return numbers and isinstance(asked, int | float) and asked == told
