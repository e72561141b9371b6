"""Tools as providers, MCP and prompts are told of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from turnstream.core.definitions import Tool
from turnstream.core.dialects import SurfaceError
from turnstream.core.surfaces import (
    SURFACES,
    SurfaceName,
    hidden_arguments,
    mcp_tool,
    on_surface,
    prompt_form,
    visible_schema,
)

GOLDEN = Path(__file__).parents[2] / "fixtures" / "surfaces" / "search_invoices"
INVOICES = Tool.model_validate_json((GOLDEN / "tool.json").read_bytes())
TEXT = {"type": "string"}


def tool(schema: dict[str, Any], **changes: Any) -> Tool:
    """A tool with a schema."""
    definition = {
        "description": "Does\n  something.",
        "effect": "read",
        "input_schema": schema,
        "result_schema": {"type": "object"},
        "binding": {"kind": "function", "target": "a:b"},
    }
    return Tool.model_validate({**definition, **changes})


def argument(*provenance: str, **changes: str) -> dict[str, Any]:
    """Where an argument comes from."""
    return {"provenance": list(provenance), **changes}


@pytest.mark.parametrize(
    ("surface", "strict", "file"),
    [
        ("openai", True, "openai.json"),
        ("openai", False, "openai-not-strict.json"),
        ("openai-responses", True, "openai-responses.json"),
        ("openai-responses", False, "openai-responses-not-strict.json"),
        ("anthropic", True, "anthropic.json"),
        ("gemini", True, "gemini.json"),
        ("mcp", True, "mcp.json"),
        ("prompt", True, "prompt.txt"),
    ],
)
def test_search_invoices_is_as_written_down(surface: SurfaceName, strict: bool, file: str) -> None:
    """A golden file per surface; the tool itself stays as it was registered."""
    before = INVOICES.model_dump_json()
    text = (GOLDEN / file).read_text(encoding="utf-8")

    shown = on_surface("searchInvoices", INVOICES, surface=surface, strict=strict)

    assert (text.removesuffix("\n") if file == "prompt.txt" else json.loads(text)) == shown
    assert before == INVOICES.model_dump_json()


def test_every_surface_has_a_golden_file() -> None:
    """A surface that is added later cannot be forgotten here."""
    files = {path.stem for path in GOLDEN.iterdir()}

    assert set(SURFACES) <= files


@pytest.mark.parametrize("surface", SURFACES)
def test_what_is_shown_shares_nothing_with_the_registered_schema(surface: SurfaceName) -> None:
    """An adapter may change what it sends without changing what validates."""
    schema = {"type": "object", "properties": {"a": {"enum": ["b"]}, "c": TEXT}, "required": ["a"]}
    subject = tool(schema)

    def spoil(value: Any) -> None:
        if isinstance(value, dict | list):
            for inner in list(value.values() if isinstance(value, dict) else value):
                spoil(inner)
            value.clear()

    spoil(on_surface("t", subject, surface=surface))

    assert tool(schema) == subject


SECRETIVE: dict[str, Any] = {
    "arguments": {
        "customer": argument("session"),
        "total": argument("tool_result", "session", from_result="get_order.total"),
        "order": argument("record", "message"),
        "either": argument("session", "message"),
    }
}


def test_what_code_fills_in_is_shown_to_no_model() -> None:
    """An argument that can come from session or results only is neither declared nor required."""
    subject = tool(
        {
            "type": "object",
            "required": ["customer", "order"],
            "properties": {
                "customer": TEXT,
                "total": TEXT,
                "order": TEXT,
                "either": TEXT,
                "f": TEXT,
            },
            "additionalProperties": False,
        },
        **SECRETIVE,
    )

    assert frozenset({"customer", "total"}) == hidden_arguments(subject)
    assert {
        "type": "object",
        "required": ["order"],
        "properties": {"order": TEXT, "either": TEXT, "f": TEXT},
        "additionalProperties": False,
    } == visible_schema("t", subject)
    for surface in SURFACES:
        assert "customer" not in json.dumps(on_surface("t", subject, surface=surface))


def test_a_schema_without_required_arguments_hides_as_well() -> None:
    """Nothing that the schema does not say is added to it."""
    subject = tool({"type": "object", "properties": {"customer": TEXT}}, **SECRETIVE)

    assert {"type": "object", "properties": {}} == visible_schema("t", subject)


@pytest.mark.parametrize(
    ("extra", "place", "keyword"),
    [
        ({"dependentRequired": {"order": ["customer"]}}, "", "dependentRequired"),
        ({"anyOf": [{"required": ["customer"]}]}, "", "anyOf"),
        ({"properties": {"customer": TEXT, "x": {"$ref": "#"}}}, "/properties/x", "$ref"),
    ],
)
def test_what_speaks_of_all_arguments_cannot_hide_one(
    extra: dict[str, Any], place: str, keyword: str
) -> None:
    """Leaving an argument out would change what is said of the others."""
    schema = {"type": "object", "properties": {"customer": TEXT}, **extra}

    with pytest.raises(SurfaceError) as raised:
        visible_schema("t", tool(schema, **SECRETIVE))

    assert ("t", place, keyword) == (raised.value.tool, raised.value.pointer, raised.value.keyword)
    assert schema == visible_schema("t", tool(schema))


def test_mcp_hints_say_what_holds_for_anybody_who_calls() -> None:
    """A write that is safe to repeat with our key is not safe to repeat without it."""
    read = mcp_tool("t", tool({"type": "object"}))
    write = mcp_tool("t", tool({"type": "object"}, effect="write", idempotent=True))

    assert {"readOnlyHint": True, "idempotentHint": True} == read["annotations"]
    assert {"readOnlyHint": False, "idempotentHint": False} == write["annotations"]


def test_the_prompt_form_says_everything_in_a_line_per_argument() -> None:
    """In words where there are some, else as JSON Schema; nothing is left out."""
    subject = tool(
        {
            "type": "object",
            "description": "All of it.",
            "required": ["a", "b"],
            "properties": {
                "a": {"type": "string", "maxLength": 9, "description": "First,\n then."},
                "b": {"enum": ["é", None, 2], "$comment": "why"},
                "c": {"type": ["integer", "null"], "const": 1},
                "d": {"type": "array", "items": {"type": "string"}, "description": "List."},
                "e": {"$ref": "#/$defs/e"},
                "f": True,
                "g": False,
                "h": {"description": 7, "enum": 3},
            },
            "additionalProperties": {"type": "string"},
            "$defs": {"e": {"type": "string"}},
        }
    )

    assert (
        "t: Does something.\n"
        "Arguments, as one JSON object:\n"
        "- a: string, required, maxLength 9. First, then.\n"
        '- b: required, one of "é", null, 2\n'
        "- c: integer or null, optional, const 1\n"
        '- d: array, optional, schema {"items":{"type":"string"}}. List.\n'
        '- e: optional, schema {"$ref":"#/$defs/e"}\n'
        "- f: any type, optional\n"
        '- g: optional, schema {"not":{}}\n'
        "- h: optional\n"
        '- any other: schema {"type":"string"}\n'
        'All arguments together: {"description":"All of it.","$defs":{"e":{"type":"string"}}}'
    ) == prompt_form("t", subject)


def test_the_prompt_form_of_a_tool_without_arguments() -> None:
    """Said in so many words."""
    closed = {"type": "object", "properties": {}, "additionalProperties": False}

    assert "t: Does something.\nArguments: none" == prompt_form("t", tool(closed))
    assert "t: Does something.\nArguments: none" == prompt_form("t", tool({"type": "object"}))


def test_a_schema_that_is_strict_already_goes_as_it_is() -> None:
    """Every property required, every object closed: nothing is added."""
    assert {
        "type": "function",
        "function": {
            "name": "searchInvoices",
            "description": "Search invoices by date range and status",
            "strict": True,
            "parameters": INVOICES.input_schema,
        },
    } == on_surface("searchInvoices", INVOICES, surface="openai")
