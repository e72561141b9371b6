"""The tools of a catalog on every surface, and what models give back."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.catalog.small import DEMO, SMALL, with_change
from turnstream.catalog.load import CatalogError, load_catalog
from turnstream.catalog.schemas import argument_check
from turnstream.catalog.surfaces import tools_on_surface
from turnstream.core.definitions import Tool
from turnstream.core.nulls import without_added_nulls
from turnstream.core.ruleset import ArgumentFault
from turnstream.core.surfaces import SURFACES, SurfaceName, on_surface

Write = Callable[[str], Path]
Case = dict[str, Any]

FIXTURES = Path(__file__).parents[2] / "fixtures"
SEARCH_INVOICES = FIXTURES / "surfaces" / "search_invoices"

TOOLS: dict[str, Tool] = {
    **load_catalog(DEMO).catalog.tools,
    "searchInvoices": Tool.model_validate_json((SEARCH_INVOICES / "tool.json").read_bytes()),
}
CASES: dict[str, Case] = {
    **{path.stem: json.loads(path.read_bytes()) for path in (FIXTURES / "arguments").iterdir()},
    "searchInvoices": json.loads((SEARCH_INVOICES / "arguments.json").read_bytes()),
}
TEXT_SURFACES = {"openai", "openai-responses", "prompt"}
"""Where arguments come back as a JSON string; elsewhere they are an object."""


def model_gives(surface: SurfaceName, tool: Tool, arguments: Case) -> object:
    """Arguments as a model returns them on a surface: strict ones say null for what is absent."""
    given = dict(arguments)
    if surface.startswith("openai"):
        schema: Any = tool.input_schema
        optional = [name for name in schema["properties"] if name not in schema["required"]]
        given = {**dict.fromkeys(optional), **given}
    return json.dumps(given) if surface in TEXT_SURFACES else given


def judged(tool: Tool, given: object) -> tuple[Mapping[str, Any], ArgumentFault | None]:
    """What comes back, read and held to the registered schema, whatever the surface was."""
    parsed = json.loads(given) if isinstance(given, str) else given
    assert isinstance(parsed, dict)
    arguments = without_added_nulls(parsed, schema=tool.input_schema).arguments
    return arguments, argument_check(tool.input_schema)(arguments)


def test_every_tool_of_the_demo_has_fixtures() -> None:
    """A tool that is added later cannot be forgotten here."""
    assert set(TOOLS) == set(CASES)
    assert all({"valid", "missing_field", "wrong_enum"} == set(cases) for cases in CASES.values())


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("strict", [True, False])
def test_every_tool_of_the_demo_can_be_shown_everywhere(surface: SurfaceName, strict: bool) -> None:
    """In the order of the catalog, under its own name."""
    shown = tools_on_surface(load_catalog(DEMO), surface=surface, strict=strict)

    assert list(load_catalog(DEMO).catalog.tools) == list(shown)
    assert all(name in json.dumps(tool) for name, tool in shown.items())


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", sorted(CASES))
def test_arguments_mean_the_same_on_every_surface(surface: SurfaceName, name: str) -> None:
    """Valid ones come through unchanged; a missing field and a wrong value are named."""
    tool, cases = TOOLS[name], CASES[name]
    on_surface(name, tool, surface=surface)

    assert (cases["valid"], None) == judged(tool, model_gives(surface, tool, cases["valid"]))
    _, missing = judged(tool, model_gives(surface, tool, cases["missing_field"]))
    _, wrong = judged(tool, model_gives(surface, tool, cases["wrong_enum"]))
    assert missing is not None
    assert ("", "required") == (missing.path, missing.keyword)
    assert wrong is not None
    assert wrong.keyword in ("enum", "pattern")  # where a tool has no enum, a value it refuses
    assert wrong.path.removeprefix("/") in cases["wrong_enum"]


def test_absent_and_null_mean_the_same_for_every_provider() -> None:
    """One policy: null is dropped where it can be nothing else, whoever sent it."""
    schema = {
        "type": "object",
        "required": ["order_id"],
        "additionalProperties": False,
        "properties": {"order_id": {"type": "string"}, "note": {"type": "string"}},
    }
    tool = TOOLS["cancel_order"].model_copy(update={"input_schema": schema})
    given = {"order_id": "A-1", "note": None}

    outcomes = [
        judged(tool, json.dumps(given) if surface in TEXT_SURFACES else given)
        for surface in SURFACES
    ]

    assert [({"order_id": "A-1"}, None)] * len(SURFACES) == outcomes
    _, fault = judged(tool, {"order_id": None})
    assert fault is not None
    assert ("/order_id", "type") == (fault.path, fault.keyword)


def test_what_cannot_be_shown_is_named_with_its_line(write: Write) -> None:
    """Tool, pointer and keyword, for whoever edits the catalog; other surfaces do not mind."""
    text = with_change("book: {type: string}", "book: {oneOf: [{type: string}]}")
    path = write(text)
    loaded = load_catalog(path)
    line = text.split("oneOf")[0].count("\n") + 1

    with pytest.raises(CatalogError) as raised:
        tools_on_surface(loaded, surface="gemini")

    assert 1 == len(raised.value.faults)
    assert (
        f"{path}:{line}: tools.find_loan.input_schema.properties.book.oneOf: gemini cannot be told "
        "'oneOf' at /properties/book: not supported; say it in other keywords"
    ) == str(raised.value)
    assert ["find_loan"] == list(tools_on_surface(loaded, surface="anthropic"))
    assert {} == tools_on_surface(loaded, surface="gemini", names=())


def test_a_name_that_cannot_be_shown_is_named(write: Write) -> None:
    """Found when the catalog is loaded for a surface, not at the first request."""
    loaded = load_catalog(write(SMALL))
    tools = {"find loan": loaded.catalog.tools["find_loan"]}
    renamed = replace(loaded, catalog=loaded.catalog.model_copy(update={"tools": tools}))

    with pytest.raises(CatalogError, match=r"tools\.find loan: mcp cannot be told 'name': a name"):
        tools_on_surface(renamed, surface="mcp")


def test_an_argument_that_cannot_be_shown_is_named(write: Write) -> None:
    """A dot is a name for a catalog, and for Anthropic; brackets are not."""
    text = with_change("format: {enum: [print, audio]}", '"filter[x]": {enum: [print, audio]}')
    path = write(text.replace("format: {provenance", '"filter[x]": {field: format, provenance'))
    line = text.split('"filter[x]"')[0].count("\n") + 1

    with pytest.raises(CatalogError) as raised:
        tools_on_surface(load_catalog(path), surface="anthropic")

    place = f"{path}:{line}: tools.find_loan.input_schema.properties.filter[x]: anthropic"
    assert str(raised.value).startswith(place)
