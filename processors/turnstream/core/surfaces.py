"""A catalog's tool as each model provider, MCP and a prompt want to be told of it.

The registered schema is never changed; what comes back is read by :mod:`turnstream.core.nulls` and
judged by the registered schema, whatever surface it was shown on. An argument that code fills in
(from the session or an earlier result, and from nowhere else) is shown to no model. Every form says
all that the schema says, or raises :class:`~turnstream.core.dialects.SurfaceError`; the table of
what a surface accepts and its sources are in :mod:`turnstream.core.dialects`.
"""

import copy
import json
from typing import Final, Literal, TypeAlias, assert_never, get_args

from pydantic import JsonValue

from turnstream.core.definitions import Tool
from turnstream.core.dialects import ANTHROPIC, MCP, PROMPT, SurfaceError, without_asides
from turnstream.core.schema_tree import REFERENCES, children, types, walk
from turnstream.core.wordings import for_gemini, for_openai, for_openai_strict

SurfaceName: TypeAlias = Literal[
    "openai", "openai-responses", "anthropic", "gemini", "mcp", "prompt"
]
SURFACES: Final[tuple[SurfaceName, ...]] = get_args(SurfaceName)

_BY_CODE: Final = frozenset({"session", "tool_result"})
"""Sources of a value that no model is asked for."""

_OF_ALL_ARGUMENTS: Final = frozenset(
    """
    allOf anyOf dependentRequired dependentSchemas else if maxProperties minProperties not oneOf
    patternProperties propertyNames then
    """.split()  # noqa: SIM905 - a list of words is kept up more easily as words
)
"""Keywords at the top that may speak of an argument that is not shown."""


def hidden_arguments(tool: Tool) -> frozenset[str]:
    """Arguments that code fills in: no model sees them, and none may give them."""
    return frozenset(
        name for name, source in tool.arguments.items() if _BY_CODE.issuperset(source.provenance)
    )


def visible_schema(name: str, tool: Tool) -> dict[str, JsonValue]:
    """A copy of the registered input schema without the hidden arguments.

    Raises:
        SurfaceError: the schema says something of all arguments together, or refers to itself as a
            whole, so that leaving one out would change what it says of the others.
    """
    schema = copy.deepcopy(tool.input_schema)
    properties = schema.get("properties")
    hidden = hidden_arguments(tool)
    if not isinstance(properties, dict) or hidden.isdisjoint(properties):
        return schema
    for place, here in walk(schema):
        for keyword in here:
            whole = keyword in REFERENCES and here[keyword] == "#"
            if whole or (not place and keyword in _OF_ALL_ARGUMENTS):
                names = ", ".join(sorted(hidden))
                raise SurfaceError(
                    name,
                    surface="every surface",
                    place=place,
                    keyword=keyword,
                    reason=f"speaks of all arguments, but {names} is filled in by code and not "
                    "shown; say it of single arguments",
                )
    schema["properties"] = {key: value for key, value in properties.items() if key not in hidden}
    required = schema.get("required")
    if isinstance(required, list):
        schema["required"] = [one for one in required if one not in hidden]
    return schema


def openai_chat_tool(name: str, tool: Tool, *, strict: bool = True) -> dict[str, JsonValue]:
    """A function tool of OpenAI's Chat Completions.

    Raises:
        SurfaceError: it cannot be said, or not in strict mode.
    """
    schema = visible_schema(name, tool)
    if strict:
        how: dict[str, JsonValue] = {"strict": True, "parameters": for_openai_strict(name, schema)}
    else:  # the default there, and servers that resemble OpenAI may not know the key
        how = {"parameters": for_openai(name, schema)}
    return {"type": "function", "function": {**_described(name, tool), **how}}


def openai_responses_tool(name: str, tool: Tool, *, strict: bool = True) -> dict[str, JsonValue]:
    """A function tool of OpenAI's Responses, where `strict` must always be said.

    Raises:
        SurfaceError: as :func:`openai_chat_tool`.
    """
    convert = for_openai_strict if strict else for_openai
    parameters = convert(name, visible_schema(name, tool))
    described = _described(name, tool)
    return {"type": "function", **described, "strict": strict, "parameters": parameters}


def anthropic_tool(name: str, tool: Tool) -> dict[str, JsonValue]:
    """A client tool of Anthropic's Messages, not strict: all of JSON Schema but at the top.

    Raises:
        SurfaceError: it cannot be said.
    """
    schema = visible_schema(name, tool)
    ANTHROPIC.check(name, schema)
    return {**_described(name, tool), "input_schema": schema}


def gemini_declaration(name: str, tool: Tool) -> dict[str, JsonValue]:
    """A function declaration of Gemini, with `parametersJsonSchema`.

    Raises:
        SurfaceError: it cannot be said.
    """
    schema = for_gemini(name, visible_schema(name, tool))
    return {**_described(name, tool), "parametersJsonSchema": schema}


def mcp_tool(name: str, tool: Tool) -> dict[str, JsonValue]:
    """A tool as an MCP server lists it.

    A write is never called idempotent: ours may be repeated with the same idempotency key, the hint
    says that it may be repeated with the same arguments.

    Raises:
        SurfaceError: it cannot be said.
    """
    schema = visible_schema(name, tool)
    MCP.check(name, schema)
    reads = tool.effect == "read"
    return {
        **_described(name, tool),
        "inputSchema": schema,
        "outputSchema": copy.deepcopy(tool.result_schema),
        "annotations": {"readOnlyHint": reads, "idempotentHint": reads},
    }


def on_surface(
    name: str, tool: Tool, *, surface: SurfaceName, strict: bool = True
) -> dict[str, JsonValue] | str:
    """A tool as one surface wants it: JSON, or text for `prompt`.

    Args:
        name: the tool's.
        tool: its definition; not changed.
        surface: where it is shown.
        strict: OpenAI's strict mode; the other surfaces have none.

    Raises:
        SurfaceError: it cannot be said there without loss.
    """
    match surface:
        case "openai":
            return openai_chat_tool(name, tool, strict=strict)
        case "openai-responses":
            return openai_responses_tool(name, tool, strict=strict)
        case "anthropic":
            return anthropic_tool(name, tool)
        case "gemini":
            return gemini_declaration(name, tool)
        case "mcp":
            return mcp_tool(name, tool)
        case "prompt":
            return prompt_form(name, tool)
        case _:
            assert_never(surface)


def _described(name: str, tool: Tool) -> dict[str, JsonValue]:
    return {"name": name, "description": tool.description}


# --- the prompt form ----------------------------------------------------------------------------


def prompt_form(name: str, tool: Tool) -> str:
    """A tool as text, for models without tools: one line per argument.

    What a line cannot say in words (objects, unions, references) stands there as JSON Schema.

    Raises:
        SurfaceError: the name has a character that would break a line of text.
    """
    schema = visible_schema(name, tool)
    PROMPT.check(name, schema)
    lines = [f"{name}: {_one_line(tool.description)}"]
    properties = schema.get("properties")
    arguments = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    further = schema.get("additionalProperties")
    if arguments:
        only = ", no others" if further is False else ""
        lines.append(f"Arguments, as one JSON object{only}:")
    else:
        lines.append("Arguments: none")
    for argument, inner in arguments.items():
        needed = isinstance(required, list) and argument in required
        lines.append(f"- {argument}: {_argument(inner, required=needed)}")
    if isinstance(further, dict):
        lines.append(f"- any other: schema {_compact(further)}")
    said = {"type", "properties", "required", "additionalProperties"}
    rest = {key: value for key, value in without_asides(schema).items() if key not in said}
    if rest:
        lines.append(f"All arguments together: {_compact(rest)}")
    return "\n".join(lines)


def _argument(schema: JsonValue, *, required: bool) -> str:
    if not isinstance(schema, dict):
        schema = {} if schema else {"not": {}}
    words = without_asides(schema)
    description = words.pop("description", "")
    kinds = types(words)
    words.pop("type", None)
    parts = [" or ".join(kinds) or "any type"] if kinds or not words else []
    parts.append("required" if required else "optional")
    if any(True for _ in children(words)) or any(key in words for key in REFERENCES):
        parts.append(f"schema {_compact(words)}")
        words = {}
    enum = words.pop("enum", None)
    if isinstance(enum, list):
        parts.append(f"one of {', '.join(_compact(value) for value in enum)}")
    parts += [f"{key} {_compact(value)}" for key, value in words.items()]
    line = ", ".join(parts)
    return (
        f"{line}. {_one_line(description)}"
        if isinstance(description, str) and description
        else line
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
