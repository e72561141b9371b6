"""The two versions: every field of every definition belongs to exactly one of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.catalog.small import DEMO, SMALL
from turnstream.catalog.load import read_catalog
from turnstream.catalog.version import PRESENTATION, decision_version, presentation_version
from turnstream.config.yaml_lines import parse_yaml
from turnstream.core import agents, bindings, business_rules, definitions, servers
from turnstream.core.definition import Definition
from turnstream.core.definitions import Catalog

CATALOG = Catalog.model_validate(
    {
        "entry_agent": "a",
        "default_queue": "q",
        "agents": {
            "a": {
                "description": "A",
                "hops": [{"kind": "model", "emits": "text"}],
                "finalAnswer": {"schema": "s.json", "version": "1", "content": {"type": "object"}},
            }
        },
        "channels": {"c": {"type": "webchat", "default_locale": "fr"}},
        "queues": {
            "q": {
                "description": "Q",
                "text": {"en": "Q"},
                "agent": {"url": "{A}", "skill": "s"},
            }
        },
        "servers": {
            "w": {"transport": "streamable_http", "url": "{M}/mcp"},
            "p": {"transport": "stdio", "command": "m"},
        },
        "rules": {"r": {"description": "R", "text": {"en": "R"}}},
        "categories": {"k": {"description": "K"}},
        "thresholds": {"answer": 0.1},
        "fields": {
            "f": {
                "description": "F",
                "type": "choice",
                "choices": {"x": {"label": {"en": "X"}, "aliases": ["ex"]}},
                "question": {"en": "F?"},
                "question_for": {"t": {"en": "F for T?"}},
            }
        },
        "answers": {
            "n": {"description": "N", "text": {"en": "{f}"}, "words": {"f": {"x": {"en": "X"}}}}
        },
        "tools": {
            "t": {
                "description": "T",
                "input_schema": {"type": "object"},
                "result_schema": {"type": "object"},
                "effect": "read",
                "rules": [
                    {"kind": "range", "argument": "f"},
                    {"kind": "order", "lower": "f", "upper": "f"},
                    {"kind": "right", "argument": "f", "values": ["x"], "permission": "p"},
                    {"kind": "lookup", "argument": "f", "tool": "t", "path": "x"},
                    {"kind": "looked_up_range", "argument": "f", "tool": "t", "maximum": "x"},
                ],
                "retry": {"attempts": 2},
                "arguments": {"f": {"provenance": ["message"]}},
                "errors": {"e": {"description": "E"}},
                "binding": {
                    "kind": "http",
                    "url": "{U}/x",
                    "reconcile": {"url": "{U}/y/{idempotency_key}"},
                },
            },
            "u": {
                "description": "U",
                "input_schema": {"type": "object"},
                "result_schema": {"type": "object"},
                "effect": "write",
                "binding": {"kind": "function", "target": "a.b:c"},
            },
            "m": {
                "description": "M",
                "input_schema": {"type": "object"},
                "result_schema": {"type": "object"},
                "effect": "write",
                "binding": {"kind": "mcp", "server": "w", "reconcile": {"tool": "b"}},
            },
        },
    }
)
"""One catalog that holds every kind of definition."""

Case = tuple[str, type[Definition], str, Catalog]


def other(value: Any) -> Any:
    """Another value of about the same kind."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 0.125
        case str():
            return value + "x"
        case tuple():
            return (*value, "x")
        case dict():
            return {**value, "x": {"x": "x"}}
        case _:
            return "x"


def mutations(value: Definition, path: str = "") -> Iterator[tuple[str, type, str, Definition]]:
    """Every copy of a definition in which one field, at any depth, differs."""
    for name in type(value).model_fields:
        content = getattr(value, name)
        place = f"{path}.{name}".removeprefix(".")
        if isinstance(content, Definition):
            for where, owner, field, changed in mutations(content, place):
                yield where, owner, field, value.model_copy(update={name: changed})
        elif isinstance(content, tuple) and any(isinstance(item, Definition) for item in content):
            for index, item in enumerate(content):
                for where, owner, field, changed in mutations(item, f"{place}.{index}"):
                    items = (*content[:index], changed, *content[index + 1 :])
                    yield where, owner, field, value.model_copy(update={name: items})
        elif isinstance(content, dict) and any(
            isinstance(item, Definition) for item in content.values()
        ):
            for key, item in content.items():
                for where, owner, field, changed in mutations(item, f"{place}.{key}"):
                    copy = {**content, key: changed}
                    yield where, owner, field, value.model_copy(update={name: copy})
        else:
            yield place, type(value), name, value.model_copy(update={name: other(content)})


CASES = [
    pytest.param(owner, field, changed, id=place)
    for place, owner, field, changed in mutations(CATALOG)
]


@pytest.mark.parametrize(("owner", "field", "changed"), CASES)
def test_every_field_belongs_to_exactly_one_version(
    owner: type[Definition], field: str, changed: Catalog
) -> None:
    """A changed text moves the presentation alone; any other change moves the decision alone."""
    moved = {
        "decision": decision_version(changed) != decision_version(CATALOG),
        "presentation": presentation_version(changed) != presentation_version(CATALOG),
    }
    shown = field in PRESENTATION.get(owner, frozenset())

    assert moved == {"decision": not shown, "presentation": shown}


def test_every_definition_was_changed() -> None:
    """The cases above reach every field of every kind of definition."""
    kinds = {
        kind
        for module in (definitions, agents, bindings, business_rules, servers)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Definition) and kind is not Definition
        if not kind.__name__.startswith("_")
    }
    nested = {"agents", "channels", "queues", "rules", "categories", "thresholds", "fields"}
    nested |= {"answers", "tools", "choices", "retry", "arguments", "errors", "binding"}
    nested |= {"breaker", "reconcile", "hops", "final_answer", "servers", "agent", "extra"}
    every = {(kind, name) for kind in kinds for name in kind.model_fields if name not in nested}
    reached = {(owner, field) for _, owner, field, _ in mutations(CATALOG) if field not in nested}

    assert every == reached


def test_presentation_names_only_existing_fields() -> None:
    """The table of shown fields has no misspelt entry."""
    assert all(names <= set(kind.model_fields) for kind, names in PRESENTATION.items())


def test_a_new_entry_moves_the_decision() -> None:
    """Another tool is another decision, and says nothing to customers."""
    tools = {**CATALOG.tools, "v": CATALOG.tools["u"]}
    changed = CATALOG.model_copy(update={"tools": tools})

    assert decision_version(changed) != decision_version(CATALOG)
    assert presentation_version(changed) == presentation_version(CATALOG)


def test_the_order_of_entries_counts() -> None:
    """Deciders see tools in their order, so another order is another decision."""
    tools = dict(reversed(CATALOG.tools.items()))

    assert decision_version(CATALOG.model_copy(update={"tools": tools})) != decision_version(
        CATALOG
    )


def test_layout_comments_and_written_defaults_do_not_count() -> None:
    """The versions are of the meaning, not of the file."""
    plain = parse_yaml(SMALL, path=DEMO).value
    rewritten = SMALL.replace("effect: read", "idempotent: false  # as ever\n    effect: read")
    changed = parse_yaml(rewritten, path=DEMO).value
    one, two = Catalog.model_validate(plain), Catalog.model_validate(changed)

    assert decision_version(one) == decision_version(two)
    assert presentation_version(one) == presentation_version(two)


def test_versions_are_the_same_on_every_machine() -> None:
    """The hashes of a fixed catalog never change by themselves: calibrations bind to them.

    Nor when there is more that a catalog may say: what this one leaves out does not count.
    """
    agent = CATALOG.agents["a"].model_copy(update={"hops": (), "final_answer": None})
    tool = CATALOG.tools["t"].model_copy(update={"rules": ()})
    tools = {"t": tool, "u": CATALOG.tools["u"]}
    queue = CATALOG.queues["q"].model_copy(update={"agent": None})
    plain = CATALOG.model_copy(
        update={"agents": {"a": agent}, "tools": tools, "queues": {"q": queue}, "servers": {}}
    )

    assert (decision_version(plain), presentation_version(plain)) == (
        "d9407108e260bbae",
        "f771ce8ced26994f",
    )


def test_the_demo_has_different_versions() -> None:
    """The two hashes of one catalog are not the same number."""
    _, catalog = read_catalog(DEMO)

    assert decision_version(catalog) != presentation_version(catalog)
