"""What null means in the arguments that a model gave: absent, where null is no value.

Strict surfaces (:mod:`turnstream.core.dialects`) require every property and make the optional ones
nullable, so a model says "none" with null; other models do so of their own accord. One rule holds
for every provider: null for a declared, optional property whose registered schema does not allow
null is left out, and where that was done is recorded. Everything else stays as it came and is
judged by the registered schema: null where it allows null, null for a required property, null
under a name that it does not declare, an empty string, the word ``null``.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.evolution import dataclass
from turnstream.core.schema_readings import Reading, declared, inside, listed, readings
from turnstream.core.schema_tree import Place, Schema, admits_null, pointer

_NESTING: Final = 64
"""Deepest nesting that is followed: a schema that refers to itself meets deep data otherwise."""


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments as they are meant."""

    arguments: dict[str, JsonValue]
    dropped: tuple[str, ...]
    """JSON pointers of the nulls that were left out, in the order of the arguments."""


def without_added_nulls(arguments: Mapping[str, JsonValue], *, schema: Schema) -> Given:
    """Leave out the nulls that mean absent.

    Args:
        arguments: the model's, parsed; not changed.
        schema: the registered input schema, never a provider's copy of it.
    """
    reader = _Reader(schema)
    cleaned = reader.cleaned(dict(arguments), dict(schema), ())
    return Given(cleaned if isinstance(cleaned, dict) else {}, tuple(reader.dropped))


class _Reader:
    """One pass over arguments."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self.dropped: list[str] = []

    def cleaned(self, value: JsonValue, schema: JsonValue, place: Place) -> JsonValue:
        if not isinstance(value, dict | list) or len(place) == _NESTING:
            return value
        ways = readings(schema, value, root=self._root)
        if isinstance(value, list):
            return [
                self.cleaned(item, inside(ways, index), (*place, index))
                for index, item in enumerate(value)
            ]
        kept: dict[str, JsonValue] = {}
        for name, item in value.items():
            if item is None and self._means_absent(name, ways):
                self.dropped.append(pointer((*place, name)))
            else:
                kept[name] = self.cleaned(item, inside(ways, name), (*place, name))
        return kept

    def _means_absent(self, name: str, ways: list[Reading]) -> bool:
        """A reading that allows null keeps it; else one that allows it to be absent drops it."""
        may_be_absent = False
        for reading in ways:
            schemas = declared(reading, name)
            if not schemas:
                continue
            if all(admits_null(one, root=self._root) for one in schemas):
                return False
            required = any(name in listed(part, "required") for part in reading)
            may_be_absent = may_be_absent or not required
        return may_be_absent
