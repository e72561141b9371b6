"""How an agent model asks, refuses, hands off and gives an approved answer: by tools of ours.

They stand beside the catalog's tools on every surface, native or in a prompt, and nothing is called
for them: code reads which step the model wants. What may be named - fields, rules, answers - is a
closed list of the catalog.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from turnstream.core.bindings import FunctionBinding
from turnstream.core.contract import HANDOFF_CAUSES, HandoffCause
from turnstream.core.definitions import MISSING_PERMISSION, Catalog, Tool
from turnstream.core.errors import DefinitionError
from turnstream.core.json_arguments import Unparsed, parsed
from turnstream.core.ports import DecisionRequest
from turnstream.models.transport import ModelCall

ASK: Final = "ask_customer"
REFUSE: Final = "refuse"
HAND_OFF: Final = "hand_off"
ANSWER: Final = "give_approved_answer"

CONTROLS: Final = frozenset({ASK, REFUSE, HAND_OFF, ANSWER})

CAUSES: Final[Mapping[str, str]] = {
    "unsupported": "nothing here serves the request",
    "user_request": "the customer wants a person",
    "tool_unavailable": "a tool that is needed failed or is missing",
    "contradiction": "what is known contradicts itself",
    "safety": "somebody may be in danger",
}
"""Why a model may bring a person in."""

_NOTHING: Final = FunctionBinding(target="turnstream:nothing")
_NO_RESULT: Final[dict[str, JsonValue]] = {"type": "object"}


def control_tools(catalog: Catalog) -> dict[str, Tool]:
    """The control tools that a catalog has a use for.

    Raises:
        DefinitionError: a tool of the catalog has the name of one.
    """
    taken = sorted(CONTROLS & catalog.tools.keys())
    if taken:
        raise DefinitionError(
            f"tools.{taken[0]}: an agent model has a tool of that name; rename it"
        )
    found: dict[str, Tool] = {}
    fields = sorted(name for name, field in catalog.fields.items() if _askable(name, catalog))
    if fields:
        needing = sorted(catalog.tools)
        found[ASK] = _tool(
            "Ask the customer for one item of information that a call needs, by the approved "
            "question for it. Ask alone, beside no other call.",
            {"field": _one_of(fields, "What to ask for.")},
            {"needed_for": _one_of(needing, "The tool that needs it.")} if needing else {},
        )
    rules = sorted(catalog.rules.keys() - {MISSING_PERMISSION})
    if rules:
        found[REFUSE] = _tool(
            "Refuse what a rule forbids; the customer is given the rule's own text.",
            {"rule": _one_of(rules, "The rule.")},
        )
    answers = sorted(catalog.answers)
    if answers:
        found[ANSWER] = _tool(
            "Give the customer an approved text. Where one fits, it is better than words of your "
            "own. One that presents a result can only be given when that result is there.",
            {"answer_id": _one_of(answers, "The text.")},
        )
    causes = "; ".join(f"{cause}: {meaning}" for cause, meaning in CAUSES.items())
    found[HAND_OFF] = _tool(
        "Bring a person in, when no tool, answer or rule fits or the customer wants one.",
        {"cause": _one_of(list(CAUSES), f"Why. {causes}.")},
    )
    return found


def offered(controls: Mapping[str, Tool], request: DecisionRequest) -> list[str]:
    """The control tools of a request: nothing is asked where nobody can answer."""
    return [name for name in controls if name != ASK or request.interactive]


def named(call: ModelCall, argument: str) -> str | None:
    """What a control call names; None where its arguments say nothing of the kind."""
    arguments = call.arguments
    if arguments is not None and not isinstance(arguments, str | Mapping):
        return None
    read = parsed(arguments)
    value = None if isinstance(read, Unparsed) else read.get(argument)
    return value if isinstance(value, str) and value else None


def cause_of(given: str | None) -> HandoffCause | None:
    """The cause of the contract that a model's word is; None is `unsupported`."""
    return next((one for one in HANDOFF_CAUSES if one == given and one in CAUSES), None)


def _askable(name: str, catalog: Catalog) -> bool:
    field = catalog.fields[name]
    return field.question is not None or bool(field.question_for)


def _one_of(names: list[str], description: str) -> dict[str, JsonValue]:
    return {"type": "string", "enum": list(names), "description": description}


def _tool(
    description: str,
    required: dict[str, dict[str, JsonValue]],
    optional: dict[str, dict[str, JsonValue]] | None = None,
) -> Tool:
    return Tool(
        description=description,
        input_schema={
            "type": "object",
            "properties": {**required, **(optional or {})},
            "required": list(required),
            "additionalProperties": False,
        },
        result_schema=_NO_RESULT,
        effect="read",
        binding=_NOTHING,
    )
