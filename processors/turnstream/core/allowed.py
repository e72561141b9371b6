"""What a model may name instead of what it made up: short enough for any catalog, and true.

A model reads such a list again with every proposal, and a catalog may have hundreds of tools.
"""

from collections.abc import Iterable
from typing import Final

from turnstream.core.conversation import Conversation
from turnstream.core.definitions import Tool
from turnstream.core.ruleset import Ruleset

_LISTED_CHARACTERS: Final = 240
"""Longest list: with the words around it, it fits the bound of a gate's message."""


def listed(names: Iterable[str]) -> str:
    """Names as far as they fit, and how many more there are."""
    every = tuple(names)
    text = ""
    for index, name in enumerate(every):
        longer = f"{text}, {name}" if text else name
        if len(longer) > _LISTED_CHARACTERS:
            return f"{text} and {len(every) - index} more"
        text = longer
    return text or "none"


def unknown_tool(conversation: Conversation, ruleset: Ruleset) -> str:
    """What is said of a tool that does not exist: those that this session may use."""
    tools = ruleset.catalog.tools.items()
    usable = [
        name
        for name, tool in tools
        if not permissions_lacking(tool, conversation) and not needs_customer(tool, conversation)
    ]
    return f"unknown tool; allowed: {listed(usable)}"


def permissions_lacking(tool: Tool, conversation: Conversation) -> list[str]:
    """The permissions of a tool that the session does not have."""
    session = conversation.session
    granted = session.permissions if session is not None else ()
    return [one for one in tool.required_permissions if one not in granted]


def needs_customer(tool: Tool, conversation: Conversation) -> bool:
    """Whether a tool is for the customer's own data, and nobody knows who that is."""
    session = conversation.session
    return tool.data_scope == "own" and (session is None or not session.subject_id)
