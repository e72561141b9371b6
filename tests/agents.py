"""An agent model's side of a conversation: a catalog with everything that it may run into.

The first five tools are small ones whose arguments a model makes up, so that their schemas alone
judge them. The others take what session, results and customers say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from tests.catalogs import DEFINITION
from tests.driving import proposal
from turnstream.catalog.schemas import answer_checks, argument_checks
from turnstream.core.definitions import Catalog
from turnstream.core.ports import Proposal, ProposedCall
from turnstream.core.ruleset import Limits, Ruleset

RESULT: dict[str, JsonValue] = {"type": "object", "properties": {}}
BINDING = {"kind": "function", "target": "shop:any"}

ORDER_ID: dict[str, JsonValue] = {"type": "string", "pattern": "^A-[0-9]+$"}


def tool(
    properties: dict[str, Any], required: Sequence[str] = (), **changes: Any
) -> dict[str, Any]:
    """A public tool that reads and whose arguments a model makes up."""
    return {
        "description": "Does something.",
        "input_schema": {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            **({"required": list(required)} if required else {}),
        },
        "result_schema": RESULT,
        "effect": "read",
        "data_scope": "public",
        "arguments": {name: {"provenance": ["model"]} for name in properties},
        "binding": BINDING,
        **changes,
    }


STUBS: dict[str, Any] = {
    "lookup_order": tool(
        {"order_id": ORDER_ID, "expand": {"type": ["string", "null"]}}, ["order_id"]
    ),
    "list_orders": tool(
        {
            "status": {"enum": ["open", "closed"]},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50},
            "after": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        }
    ),
    "create_refund": tool(
        {
            "order_id": ORDER_ID,
            "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
            "notify": {"type": "boolean"},
            "note": {"type": "string", "maxLength": 200},
        },
        ["order_id", "amount"],
        effect="write",
        threshold=0.0,
    ),
    "find_ticket": tool({"ticket_id": {"type": "integer", "minimum": 1}}, ["ticket_id"]),
    "get_store_hours": tool({}),
    "find_day": tool(
        {
            "day": {"type": "string", "format": "date"},
            "code": {"type": "string", "pattern": r"^A-\d+$"},
        }
    ),
}

ORDER_DETAILS = {
    **DEFINITION["tools"]["get_order"]["input_schema"],
    "additionalProperties": False,
    "properties": {"order_id": ORDER_ID},
}

TOOLS: dict[str, Any] = {
    **STUBS,
    **DEFINITION["tools"],
    "get_order": {**DEFINITION["tools"]["get_order"], "input_schema": ORDER_DETAILS},
    "cancel_order": {
        **DEFINITION["tools"]["get_order"],
        "description": "Cancel an order.",
        "input_schema": ORDER_DETAILS,
        "effect": "write",
        "threshold": 0.5,
        "confirm": "sure",
        "answer": None,
        "errors": {},
    },
}

FIELDS: dict[str, Any] = {
    **DEFINITION["fields"],
    "sure": {
        "description": "Whether the customer is sure.",
        "type": "boolean",
        "question": {"en": "Are you sure?"},
        "question_for": {"cancel_order": {"en": "Cancel order {order_id}?"}},
    },
}

AGENTS: dict[str, Any] = {
    "shop": {"description": "S.", "maxSteps": 8, "maxQuestions": 5, "maxRetries": 2}
}


def agent_rules(limits: Limits | None = None, **changes: Any) -> Ruleset:
    """The catalog, compiled with the real checks, top-level keys of its definition changed."""
    definition = {**DEFINITION, "tools": TOOLS, "fields": FIELDS, "agents": AGENTS, **changes}
    catalog = Catalog.model_validate(definition)
    return Ruleset(
        catalog=catalog,
        decision_version="d1",
        presentation_version="p1",
        limits=limits or Limits(),
        checks=argument_checks(catalog),
        answer_checks=answer_checks(catalog),
    )


RULES = agent_rules()

Arguments = str | Mapping[str, JsonValue] | None


def wanting(tool_name: str, arguments: Arguments, call_id: str = "c1") -> ProposedCall:
    """A call that a model asks for."""
    return ProposedCall(call_id, tool_name, arguments)


def calling(*calls: ProposedCall, **changes: Any) -> Proposal:
    """A reply that asks for calls; its own form is any JSON."""
    given: dict[str, Any] = {
        "tool": calls[0].tool,
        "calls": calls,
        "reply": {"calls": [one.call_id for one in calls]},
        **changes,
    }
    return proposal("call_tool", "lookup_required", **given)


def asking(field: str = "order_id", needed_for: str = "get_order", call_id: str = "q1") -> Proposal:
    """A reply that asks the customer by a call."""
    return proposal(
        "ask",
        "missing_input",
        missing_field=field,
        needed_for=needed_for,
        calls=(ProposedCall(call_id, "ask_user", {"field": field}),),
        reply={"asks": field},
    )


def saying(text: str, **changes: Any) -> Proposal:
    """A reply that is the final answer."""
    given: dict[str, Any] = {"text": text, "reply": {"text": text}, **changes}
    return proposal("answer", "context_sufficient", **given)


def doubting(known: Proposal, confidence: float) -> Proposal:
    """The same reply, less sure of itself."""
    return replace(known, confidence=confidence)
