"""The pydantic models and the Avro schemas say the same, field by field."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from turnstream.core.events import Event
from turnstream.core.publications import ActionEvent, Outcome
from turnstream.stream.compatibility import check_packaged, house_faults, model_faults
from turnstream.stream.contracts import EVENTS, newest

Path = tuple[str | int, ...]


def _field_paths(part: Any, path: Path = ()) -> Iterator[Path]:
    """The place of every field in a schema's JSON."""
    if isinstance(part, list):
        for index, item in enumerate(part):
            yield from _field_paths(item, (*path, index))
    elif isinstance(part, dict):
        for index, field in enumerate(part.get("fields", ())):
            here: Path = (*path, "fields", index)
            yield here
            yield from _field_paths(field["type"], (*here, "type"))
        for key in ("type", "items", "values"):
            if isinstance(part.get(key), dict | list):
                yield from _field_paths(part[key], (*path, key))


def _at(part: Any, path: Path) -> Any:
    for step in path:
        part = part[step]
    return part


def _named(topic: str, path: Path) -> str:
    schema: Any = newest(topic).definition
    names = [
        _at(schema, path[: index + 2])["name"]
        for index, step in enumerate(path)
        if step == "fields"
    ]
    return f"{topic}:{'.'.join(names)}"


FIELDS = [(topic, path) for topic in EVENTS for path in _field_paths(newest(topic).definition)]
every_field = pytest.mark.parametrize(
    ("topic", "path"), FIELDS, ids=[_named(topic, path) for topic, path in FIELDS]
)


@pytest.mark.parametrize(("topic", "model"), EVENTS.items(), ids=list(EVENTS))
def test_model_equals_newest_schema(topic: str, model: type[Event]) -> None:
    """Walking model and schema together finds no difference."""
    assert [] == list(model_faults(model, newest(topic).definition))


def test_all_packaged_schemas_obey_all_rules() -> None:
    """Compatibility, house rules and equality hold for everything that is shipped."""
    assert () == check_packaged()


def test_many_fields_are_compared() -> None:
    """The walk reaches nested records, not only the top level."""
    assert len(FIELDS) > 180


@every_field
def test_a_renamed_field_is_found(topic: str, path: Path) -> None:
    """No field can be renamed on one side only."""
    changed = copy.deepcopy(newest(topic).definition)
    _at(changed, path)["name"] += "_renamed"

    assert [] != list(model_faults(EVENTS[topic], changed))


@every_field
def test_a_changed_type_is_found(topic: str, path: Path) -> None:
    """No field can change its type on one side only."""
    changed = copy.deepcopy(newest(topic).definition)
    _at(changed, path)["type"] = "double"

    assert [] != list(model_faults(EVENTS[topic], changed))


@every_field
def test_a_changed_nullability_is_found(topic: str, path: Path) -> None:
    """No field can become nullable, or stop being it, on one side only."""
    changed = copy.deepcopy(newest(topic).definition)
    field = _at(changed, path)
    field["type"] = field["type"][1] if isinstance(field["type"], list) else ["null", field["type"]]

    assert [] != list(model_faults(EVENTS[topic], changed))


@every_field
def test_a_changed_default_is_found(topic: str, path: Path) -> None:
    """No field can gain, lose or change a default on one side only."""
    changed = copy.deepcopy(newest(topic).definition)
    field = _at(changed, path)
    if "default" in field:
        del field["default"]
    else:
        field["default"] = "something"

    assert [] != list(model_faults(EVENTS[topic], changed))


def _swap_fields(schema: Any) -> None:
    schema["fields"].reverse()


def _drop_symbol(schema: Any) -> None:
    schema["fields"][1]["type"]["symbols"].remove("late")


def _reorder_symbols(schema: Any) -> None:
    symbols = schema["fields"][1]["type"]["symbols"]
    symbols[0], symbols[1] = symbols[1], symbols[0]


def _forget_unrecognized(schema: Any) -> None:
    schema["fields"][1]["type"]["symbols"].remove("unrecognized")


def _forget_time(schema: Any) -> None:
    schema["fields"][-1]["type"] = "long"


@pytest.mark.parametrize(
    "change", [_swap_fields, _drop_symbol, _reorder_symbols, _forget_unrecognized, _forget_time]
)
def test_order_symbols_and_times_are_compared(change: Callable[[Any], None]) -> None:
    """Order of fields, symbols and their order, and the logical type of times all count."""
    changed = copy.deepcopy(newest("conversation.outcomes").definition)
    change(changed)

    assert [] != list(model_faults(Outcome, changed))


def test_another_record_is_found() -> None:
    """A schema of another event is not taken for the model's."""
    assert [("", "is ActionEvent in the model, and record turnstream.Outcome in the schema")] == (
        list(model_faults(ActionEvent, newest("conversation.outcomes").definition))
    )


def _no_default(schema: Any) -> None:
    del schema["fields"][0]["type"]["default"]


def _no_doc(schema: Any) -> None:
    del schema["doc"]


def _foreign_namespace(schema: Any) -> None:
    schema["fields"][0]["type"]["namespace"] = "elsewhere"


def _outside_the_subset(schema: Any) -> None:
    schema["fields"][2]["type"] = "bytes"


@pytest.mark.parametrize(
    ("change", "path", "fault"),
    [
        (_no_default, "of", "enum OutcomeOf must have 'unrecognized' as its default"),
        (_no_doc, "", "record Outcome has no doc"),
        (_foreign_namespace, "of", "namespace is 'elsewhere', expected 'turnstream'"),
        (_outside_the_subset, "", "type 'bytes' is outside the compiled subset"),
    ],
)
def test_house_rules(change: Callable[[Any], None], path: str, fault: str) -> None:
    """A schema that breaks a house rule is named with the field."""
    changed = copy.deepcopy(newest("conversation.outcomes").definition)
    change(changed)

    assert [(path, fault)] == list(house_faults(changed))
