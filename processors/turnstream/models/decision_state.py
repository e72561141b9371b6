"""What a decision model is shown: the tools as they stand, and the conversation.

Both are text, one line for each thing. Who speaks is said at the beginning of a line, and nothing
that a customer, a document or a service wrote begins a line: their line breaks become spaces. What
they say is data. It can sway a model, but the options that it chooses from are ours.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from turnstream.core.definitions import Catalog, Tool
from turnstream.core.ports import DecisionRequest, Message, ToolFact, ToolOption
from turnstream.core.surfaces import hidden_arguments

_SPACES: Final = re.compile(r"\s+")

_RESULT_CHARACTERS: Final = 4_000
"""Longest result or passage that is shown: the choice of a step needs no more of it."""

_CUT: Final = " [...]"


def state_of(
    request: DecisionRequest, catalog: Catalog, *, characters: int
) -> dict[str, JsonValue]:
    """The state of a question.

    Args:
        request: what may be known.
        catalog: where the tools are described.
        characters: longest conversation; the oldest lines are left out.
    """
    tools = "\n".join(_tool(option, catalog) for option in request.tools)
    return {"tools": tools, "conversation": "\n".join(_newest(_lines(request), characters))}


def _tool(option: ToolOption, catalog: Catalog) -> str:
    tool = catalog.tools.get(option.name)
    if tool is None:
        return option.name
    hidden = hidden_arguments(tool)
    declared = tool.input_schema.get("properties")
    names = declared if isinstance(declared, dict) else {}
    arguments = ", ".join(name for name in names if name not in hidden)
    return f"{option.name}({arguments}): {_line(tool.description)} [{_standing(option, tool)}]"


def _standing(option: ToolOption, tool: Tool) -> str:
    """What keeps a tool from being called, by the names of its arguments."""
    of_field = {source.field or name: name for name, source in tool.arguments.items()}
    said = [
        f"{word}: {', '.join(of_field.get(one, one) for one in fields)}"
        for word, fields in (
            ("missing", option.missing),
            ("several values for", option.ambiguous),
            ("cannot be had from the customer", option.blocked),
        )
        if fields
    ]
    return "; ".join(said) or "all that it needs is known"


def _lines(request: DecisionRequest) -> list[str]:
    said = [*request.messages, *(one for turn in request.loop for one in turn.heard)]
    return [
        *(_cut(f"document: {_line(one.text)}", _RESULT_CHARACTERS) for one in request.passages),
        *map(_message, said),
        *map(_fact, request.facts),
        *_asked(request),
    ]


def _message(message: Message) -> str:
    return f"{message.role}: {_line(message.text)}"


def _fact(fact: ToolFact) -> str:
    if fact.superseded:
        return f"result of {fact.tool}: outdated, the customer has corrected a value since"
    if fact.outcome != "done":
        code = f", {_line(fact.error_code)}" if fact.error_code else ""
        return f"result of {fact.tool}: {fact.outcome}{code}"
    result = to_json(dict(fact.result or {}), inf_nan_mode="null").decode()
    return _cut(f"result of {fact.tool}: {result}", _RESULT_CHARACTERS)


def _asked(request: DecisionRequest) -> Iterator[str]:
    """What the last question was for, where one has ended."""
    if request.open_intent is not None:
        replied = request.answered_field
        ending = f"; {replied} has been answered" if replied else ""
        yield f"note: a question was asked for {request.open_intent}{ending}"


def _newest(lines: Sequence[str], characters: int) -> list[str]:
    """The last lines that fit; of one that is too long alone, its beginning."""
    kept: list[str] = []
    left = characters
    for line in reversed(lines):
        if len(line) + 1 > left:
            break
        kept.append(line)
        left -= len(line) + 1
    if not kept and lines:
        # The newest alone is too long: a cut one still begins with who speaks.
        kept.append(_cut(lines[-1], characters))
    return kept[::-1]


def _cut(line: str, characters: int) -> str:
    return line if len(line) <= characters else line[: characters - len(_CUT)] + _CUT


def _line(text: str) -> str:
    return _SPACES.sub(" ", text).strip()
