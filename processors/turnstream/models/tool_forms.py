"""A tool of the catalog as it goes out to a provider."""

from turnstream.core.definitions import Tool
from turnstream.core.surfaces import (
    anthropic_tool,
    gemini_declaration,
    openai_chat_tool,
    openai_responses_tool,
)
from turnstream.models.transport import ToolForm, Wire


def form_of(name: str, tool: Tool, wire: Wire) -> ToolForm:
    """A tool in the words of a wire."""
    match wire.surface:
        case "openai":
            function = openai_chat_tool(name, tool, strict=wire.strict)["function"]
            given = function.get("parameters") if isinstance(function, dict) else None
        case "openai-responses":
            given = openai_responses_tool(name, tool, strict=wire.strict)["parameters"]
        case "gemini":
            given = gemini_declaration(name, tool)["parametersJsonSchema"]
        case _:
            given = anthropic_tool(name, tool)["input_schema"]
    parameters = given if isinstance(given, dict) else {}
    return ToolForm(name, tool.description, parameters, strict=wire.strict)
