"""Reasoning that a model writes into its text, told from what it says.

Open models write `<think>...</think>` before they speak; a server that begins the block itself
shows its end alone. Servers and libraries split some of these off and some not, and streams
otherwise than whole replies. So nothing of that is relied on: the rule is here, once, for every
provider, and it is used before anything else reads the text.

A customer never reads what stands in such a block, and an action that is drafted in one is no
call.
"""

import re
from dataclasses import dataclass
from typing import Final

_NAMES: Final = "think|thinking|thought|thoughts|reasoning|reflection"

_MARK: Final = re.compile(
    rf"<\s{{0,8}}(/?)\s{{0,8}}(?:{_NAMES})(?:\s[^<>]*+)?>|\[(/?)THINK\]", re.IGNORECASE
)
"""No part of it can take what its neighbour takes, or a run of spaces would be tried in all its
divisions: models do fall into such runs, and the process would stand still."""

_CALL: Final = re.compile(
    r"</?\s{0,8}(?:tool_calls?|function_calls?|invoke|tool_use)\b[^<>]*+>|<function=|\[TOOL_CALLS\]"
    r"|<\|(?:python_tag|tool_calls?_\w+|tool_calls?)\|>",
    re.IGNORECASE,
)
"""What open models write for a call where their server has no parser for it."""

UNCLOSED: Final = "reasoning was begun and not ended: end it before you answer or call a tool"

CALL_IN_TEXT: Final = "a call was written as text: call the tool in the form that was given"


@dataclass(frozen=True, slots=True)
class Outspoken:
    """A text without its reasoning; a fault excludes the rest."""

    pieces: tuple[str, ...] = ()
    """What stood between the blocks, in order, without those that are blank."""
    fault: str | None = None

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)


def outspoken(text: str) -> Outspoken:
    """Leave the reasoning out.

    An end without a beginning ends what a server began: all before it is reasoning. A beginning
    without an end is a fault, as nobody can tell where the reply begins.
    """
    pieces: list[str] = []
    depth = 0
    at = 0
    marks = list(_MARK.finditer(text))
    if not marks:
        return Outspoken((text,))
    for mark in marks:
        ends = bool(mark[1] or mark[2])
        if depth == 0 and ends:
            pieces.clear()
        elif depth == 0:
            pieces.append(text[at : mark.start()])
        depth = max(depth - 1, 0) if ends else depth + 1
        at = mark.end()
    if depth:
        return Outspoken(fault=UNCLOSED)
    said = [one for one in (*pieces, text[at:]) if one.strip()]
    if said:
        # The line breaks around a block belong to it.
        said[0] = said[0].lstrip()
        said[-1] = said[-1].rstrip()
    return Outspoken(tuple(said))


def looks_like_a_call(text: str) -> bool:
    """Whether a text holds a call in a form that its server should have read."""
    return _CALL.search(text) is not None
