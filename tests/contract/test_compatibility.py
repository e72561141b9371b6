"""The offline checker lets compatible versions through and names breaking ones."""

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from turnstream.core.events import Timer
from turnstream.stream.compatibility import Finding, check_subject, resolution_faults
from turnstream.stream.contracts import newest, read_schema

SUBJECT = "conversation.timers-value"
V1 = newest("conversation.timers").definition
KIND = 2


def _versions(*definitions: dict[str, Any]) -> dict[int, Any]:
    return {n: read_schema(orjson.dumps(d)) for n, d in enumerate(definitions, start=1)}


def _changed(change: Callable[[Any], object]) -> dict[str, Any]:
    changed = copy.deepcopy(V1)
    change(changed["fields"])
    return changed


def _breaks(change: Callable[[Any], object]) -> list[Finding]:
    """Findings about compatibility when the changed schema comes after the first."""
    found = check_subject(SUBJECT, _versions(V1, _changed(change)), Timer)
    return [finding for finding in found if "cannot read" in finding.fault]


COMPATIBLE: dict[str, Callable[[Any], object]] = {
    "a field with a default": lambda f: f.append({"name": "n", "type": "long", "default": 0}),
    "another symbol": lambda f: f[KIND]["type"]["symbols"].insert(0, "reminder"),
    "a symbol less": lambda f: f[KIND]["type"]["symbols"].remove("call_deadline"),
    "another order": lambda f: f.reverse(),
    "another doc": lambda f: f[0].update(doc="Something else."),
}


@pytest.mark.parametrize("change", COMPATIBLE.values(), ids=COMPATIBLE)
def test_compatible_changes_pass(change: Callable[[Any], object]) -> None:
    """What Avro resolves in both directions is no finding."""
    assert [] == _breaks(change)


BREAKING: dict[str, tuple[Callable[[Any], object], list[Finding]]] = {
    "a field without a default": (
        lambda f: f.append({"name": "n", "type": "long"}),
        [
            Finding(
                f"{SUBJECT}/v2.avsc",
                "n",
                "cannot read v1: is not written there and has no default",
            )
        ],
    ),
    "a required field less": (
        lambda f: f.pop(),
        [
            Finding(
                f"{SUBJECT}/v1.avsc",
                "due_at",
                "cannot read v2: is not written there and has no default",
            )
        ],
    ),
    "another type": (
        lambda f: f[0].update(type="long"),
        [
            Finding(f"{SUBJECT}/v1.avsc", "timer_id", "cannot read v2: string does not read long"),
            Finding(f"{SUBJECT}/v2.avsc", "timer_id", "cannot read v1: long does not read string"),
        ],
    ),
    "nullable": (
        lambda f: f[0].update(type=["null", "string"], default=None),
        [Finding(f"{SUBJECT}/v1.avsc", "timer_id", "cannot read v2: string does not read null")],
    ),
    "another name of an enum": (
        lambda f: f[KIND]["type"].update(name="Kind"),
        [
            Finding(
                f"{SUBJECT}/v1.avsc",
                "kind",
                "cannot read v2: enum turnstream.TimerKind does not read enum turnstream.Kind",
            ),
            Finding(
                f"{SUBJECT}/v2.avsc",
                "kind",
                "cannot read v1: enum turnstream.Kind does not read enum turnstream.TimerKind",
            ),
        ],
    ),
}


@pytest.mark.parametrize(("change", "expected"), BREAKING.values(), ids=BREAKING)
def test_breaking_changes_are_named(
    change: Callable[[Any], object], expected: list[Finding]
) -> None:
    """A change that some version cannot read is named with file, field and reason."""
    assert expected == _breaks(change)


def test_every_pair_is_checked() -> None:
    """Transitive: a third version must agree with the first, not only with the second."""
    without_default = _changed(lambda f: f.append({"name": "n", "type": "long"}))
    with_default = _changed(lambda f: f.append({"name": "n", "type": "long", "default": 0}))

    found = check_subject(SUBJECT, _versions(V1, with_default, without_default), Timer)

    assert [
        Finding(
            f"{SUBJECT}/v3.avsc", "n", "cannot read v1: is not written there and has no default"
        )
    ] == [finding for finding in found if "cannot read" in finding.fault]


def test_a_symbol_without_a_default_breaks() -> None:
    """An enum that lost its default cannot read a newer writer's symbol."""
    reader = _changed(lambda f: f[KIND]["type"].pop("default"))
    writer = _changed(lambda f: f[KIND]["type"]["symbols"].append("reminder"))

    assert [("kind", "has neither the symbols ['reminder'] nor a default for them")] == list(
        resolution_faults(writer, reader)
    )


@pytest.mark.parametrize(
    ("written", "read", "faults"),
    [
        ("int", "long", 0),
        ("long", "int", 1),
        ("long", "double", 0),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, 0),
        ({"type": "array", "items": "long"}, {"type": "map", "values": "long"}, 1),
        ({"type": "map", "values": "string"}, {"type": "map", "values": "long"}, 1),
        ("string", ["null", "string"], 0),
        ("boolean", ["null", "string"], 1),
        (["null", "int"], ["null", "long"], 0),
    ],
)
def test_resolution_of_types(written: Any, read: Any, faults: int) -> None:
    """Promotions, items, values and branches follow Avro's resolution."""

    def record(kind: Any) -> dict[str, Any]:
        fields = [{"name": "x", "type": kind}]
        return {"type": "record", "name": "R", "namespace": "turnstream", "fields": fields}

    assert faults == len(list(resolution_faults(record(written), record(read))))
