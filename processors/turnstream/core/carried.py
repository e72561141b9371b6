"""Whether a call carries what was asked for: one form for arguments wherever they stand.

The arguments of a call are seen in three places: as the model wrote them, in the bytes that leave,
and in what the tool says that it used. They are brought into one form and compared there. What may
differ is declared: a null that means absent, 3.0 for 3, a value that code alone fills in or that
the conversation knows the model's words for. Any other difference is a fault of ours.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from turnstream.core.arguments import typed
from turnstream.core.events import Provenance, Unrecognized
from turnstream.core.json_arguments import Unparsed, parsed
from turnstream.core.nulls import without_added_nulls
from turnstream.core.ruleset import ArgumentPlan, Ruleset
from turnstream.core.schema_tree import Place, Schema, pointer, referred

Json: TypeAlias = JsonValue | Mapping[str, JsonValue]

NOT_OURS: Final[Mapping[str, JsonValue]] = {"": "\ud800"}
"""Stands beside arguments, or in their place, where something else is carried too: without a name,
and half a character, which no argument holds."""

_BY_CODE: Final[frozenset[Provenance | Unrecognized]] = frozenset({"session", "tool_result"})
"""Where the values come from that code fills in where the model gives none."""


def canonical(value: Json) -> bytes:
    """A value as JSON that equal values share.

    Names in the order of their code points, no spaces, characters as UTF-8, and neither fraction
    nor exponent for a whole number, however large: JSON makes no difference between 100, 100.0 and
    1e2, nor between 1e16 and 10000000000000000. What is no JSON is no argument, and is written so
    that it equals none.
    """
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=repr
    ).encode(errors="surrogatepass")


def hash_of(arguments: Json) -> str:
    """SHA-256 of arguments in their one form, 64 hex digits."""
    return hashlib.sha256(canonical(arguments)).hexdigest()


def _plain(value: Json) -> Json:
    match value:
        case float():
            # By the digits that are written: 1e23 is 10**23, whatever double is nearest to it.
            return int(Decimal(repr(value))) if value.is_integer() else value
        case Mapping():
            return {name: cast("JsonValue", _plain(one)) for name, one in value.items()}
        case list():
            return [cast("JsonValue", _plain(one)) for one in value]
    return value


def differences(one: Json, other: Json) -> tuple[str, ...]:
    """JSON pointers of the smallest parts in which two values differ."""
    return tuple(pointer(place) for place in _apart(one, other, ()))


def _apart(one: Json, other: Json, place: Place) -> Iterator[Place]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in {**one, **other}:
            if name in one and name in other:
                yield from _apart(one[name], other[name], (*place, name))
            else:
                yield (*place, name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _apart(left, right, (*place, index))
    elif canonical(one) != canonical(other):
        yield place


def undeclared_changes(
    given: str,
    arguments: Mapping[str, JsonValue],
    *,
    tool: str,
    provenance: Mapping[str, Provenance | Unrecognized],
    ruleset: Ruleset,
) -> tuple[str, ...]:
    """Where arguments differ from the model's, and no change that is declared explains it.

    Args:
        given: the model's, JSON text.
        arguments: those of the call.
        tool: its name, of the catalog.
        provenance: argument to where its value came from.
        ruleset: the catalog that the call was decided with.

    Returns:
        JSON pointers.
    """
    read = parsed(given)
    if isinstance(read, Unparsed):
        return ("",)
    meant = without_added_nulls(read, schema=ruleset.catalog.tools[tool].input_schema).arguments
    plans = {plan.name: plan for plan in ruleset.plans[tool]}
    found: list[str] = []
    for name in {**meant, **arguments}:
        if name not in meant:
            explained = provenance.get(name) in _BY_CODE
        elif name not in arguments:
            explained = False
        else:
            apart = tuple(_apart(meant[name], arguments[name], (name,)))
            if apart and not _same_words(meant[name], arguments[name], plans.get(name), ruleset):
                found += [pointer(place) for place in apart]
            continue
        if not explained:
            found.append(pointer((name,)))
    return tuple(found)


def _same_words(
    words: JsonValue, value: JsonValue, plan: ArgumentPlan | None, ruleset: Ruleset
) -> bool:
    """Whether the conversation's value stands for the model's words for it."""
    if plan is None or not isinstance(words, str) or plan.field not in ruleset.catalog.fields:
        return False
    read = ruleset.extractor.reply(plan.field, words)
    return len(read) == 1 and not differences(typed(read[0], plan), value)


def declared_part(path: str, schema: Schema) -> str:
    """The part of a JSON pointer whose names a schema declares; the rest may be anybody's words.

    Indexes of items are kept. Where a schema is put together of others, no more than its own names
    are known.
    """
    kept = ""
    here: JsonValue = dict(schema)
    for part in path.split("/")[1:]:
        inside = _declared_inside(here, part, schema)
        if inside is None:
            return kept
        kept, here = f"{kept}/{part}", inside[0]
    return kept


def _declared_inside(here: JsonValue, part: str, root: Schema) -> tuple[JsonValue] | None:
    """The schema of one step into a value; None where the step is not declared."""
    if isinstance(here, dict) and isinstance(here.get("$ref"), str):
        here = referred(root, str(here["$ref"]))
    if not isinstance(here, dict):
        return None
    properties = here.get("properties")
    name = part.replace("~1", "/").replace("~0", "~")
    if isinstance(properties, dict) and name in properties:
        return (properties[name],)
    return (here["items"],) if part.isdecimal() and part.isascii() and "items" in here else None
