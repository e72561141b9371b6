"""ReAct: an agent model without tools says in text what it would call.

::

    Thought: the order's state is needed.
    Action: get_order
    Action Input: {"order_id": "A-1001"}

or, when it is done,

::

    Final Answer: Your order was shipped yesterday.

Labels stand at the start of a line. Several actions may follow each other; each is a call. The
reader is strict: a text that is not in this form, that names an action without its input or beside
a final answer, or that makes up an observation is a fault that the model is told of, never an
answer or a repaired call.
The input of an action goes to the same gates as the arguments of a native call, as it was written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pydantic_core import to_json

from turnstream.core.definitions import Tool
from turnstream.core.envelope import Envelope
from turnstream.core.surfaces import prompt_form
from turnstream.models.transport import ModelCall

_LABEL: Final = re.compile(
    r"^(Thought|Action Input|Action|Observation|Final Answer):", re.MULTILINE
)

FORM: Final = """\
Reply in one of these two forms and in no other; labels stand at the start of a line.

To call a tool (several calls may follow each other):
Thought: why
Action: the tool's name
Action Input: its arguments, one JSON object

To answer the customer:
Thought: why
Final Answer: the answer

The outcome of each call is then given to you as `Observation:` and JSON. Never write one."""
"""What a model is told of the form."""

_NO_FORM: Final = "write `Action:` and `Action Input:`, or `Final Answer:`, at the start of a line"
_MADE_UP: Final = "never write `Observation:` yourself: stop after the last action"
_BOTH: Final = "either call tools or give the final answer, not both"
_STRAY: Final = "`Action Input:` belongs right after its `Action:`"
_TWICE: Final = "give one final answer"
_NO_INPUT: Final = "`Action Input:` is missing right after its `Action:`; `{}` is no arguments"
_REASONED: Final = "write no reasoning after the first `Action:`"


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a text says; a fault excludes the rest."""

    answer: str | None = None
    calls: tuple[ModelCall, ...] = ()
    fault: str | None = None


def read(pieces: Sequence[str]) -> Spoken:
    """Read a reply.

    Args:
        pieces: its text; where reasoning stood in it, in the pieces around it. What is left of a
            call that it divided could be another call, so none stands behind an action.
    """
    if any(label == "Action" for label, _ in _blocks("\n".join(pieces[:-1]))):
        return Spoken(fault=_REASONED)
    blocks = list(_blocks("\n".join(pieces)))
    labels = pairwise([*(label for label, _ in blocks), ""])
    if any(label == "Action" and behind != "Action Input" for label, behind in labels):
        return Spoken(fault=_NO_INPUT)
    answers: list[str] = []
    calls: list[ModelCall] = []
    before = ""
    for label, content in blocks:
        match label:
            case "Observation":
                return Spoken(fault=_MADE_UP)
            case "Final Answer":
                answers.append(content)
            case "Action":
                calls.append(ModelCall(None, content, None))
            case "Action Input" if before == "Action":
                calls[-1] = ModelCall(None, calls[-1].tool, content)
            case "Action Input":
                return Spoken(fault=_STRAY)
        before = label
    if answers and calls:
        return Spoken(fault=_BOTH)
    if len(answers) > 1:
        return Spoken(fault=_TWICE)
    if calls:
        return Spoken(calls=tuple(calls))
    return Spoken(answer=answers[0]) if answers else Spoken(fault=_NO_FORM)


def described(tools: Mapping[str, Tool]) -> str:
    """Tools as a prompt's text.

    Raises:
        SurfaceError: one cannot be said in a prompt.
    """
    return "\n\n".join(prompt_form(name, tool) for name, tool in tools.items())


def observations(results: Sequence[Envelope]) -> str:
    """What the model is told of its calls."""
    return "\n".join(f"Observation: {to_json(one.as_json()).decode()}" for one in results)


def quoted(text: str) -> str:
    """A customer's text, which cannot be taken for a line of the form."""
    return f"Customer wrote: {to_json(text).decode()}"


def answered(text: str) -> str:
    """An earlier answer, in the form."""
    return f"Final Answer: {text}"


def _blocks(text: str) -> Iterable[tuple[str, str]]:
    found = list(_LABEL.finditer(text))
    for index, one in enumerate(found, 1):
        end = found[index].start() if index < len(found) else len(text)
        yield one[1], text[one.end() : end].strip(" \t\r\n")
