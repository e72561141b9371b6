"""A small catalog in Python, with one of everything that the conversation machine tells apart."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from turnstream.core.definitions import Catalog
from turnstream.core.ruleset import ArgumentFault, Limits, Ruleset

NOW = 1_700_000_000_000
"""The wall clock of tests, milliseconds UTC."""

MINUTE = 60_000


def _schema(required: list[str], **properties: str) -> dict[str, JsonValue]:
    return {
        "type": "object",
        "required": list[JsonValue](required),
        "properties": {name: {"type": kind} for name, kind in properties.items()},
    }


DEFINITION: dict[str, Any] = {
    "default_locale": "en",
    "entry_agent": "shop",
    "default_queue": "general",
    "tools": {
        "get_order": {
            "description": "Look up an order.",
            "subject": "order",
            "input_schema": _schema(["order_id"], order_id="string"),
            "result_schema": _schema([], status="string", total="number"),
            "effect": "read",
            "arguments": {"order_id": {"provenance": ["record", "message"]}},
            "errors": {
                "unknown_order": {"description": "No such order.", "answer": "no_order"},
                "archived": {"description": "The order is archived."},
            },
            "answer": "order_status",
            "binding": {"kind": "function", "target": "shop:get_order"},
        },
        "search_help": {
            "description": "Find instructions.",
            "input_schema": _schema(["topic"], topic="string"),
            "result_schema": _schema([], text="string"),
            "effect": "read",
            "data_scope": "public",
            "arguments": {"topic": {"provenance": ["message"]}},
            "binding": {"kind": "function", "target": "shop:search_help"},
        },
        "refund": {
            "description": "Refund an order.",
            "subject": "order",
            "input_schema": _schema(
                ["order_id", "customer", "total"],
                order_id="string",
                customer="string",
                total="number",
                copies="integer",
                receipt="boolean",
            ),
            "result_schema": _schema([], refund_id="string"),
            "effect": "write",
            "required_permissions": ["refunds:write"],
            "arguments": {
                "order_id": {"provenance": ["record", "message"]},
                "customer": {"provenance": ["session"]},
                "total": {"provenance": ["tool_result"], "from_result": "get_order.total"},
                "copies": {"provenance": ["message"]},
                "receipt": {"provenance": ["message"]},
            },
            "threshold": 0.8,
            "answer": "refunded",
            "binding": {"kind": "function", "target": "shop:refund"},
        },
        "close_account": {
            "description": "Close the account.",
            "input_schema": _schema([], note="string"),
            "result_schema": _schema([]),
            "effect": "write",
            "arguments": {"note": {"provenance": ["message"]}},
            "binding": {"kind": "function", "target": "shop:close_account"},
        },
    },
    "fields": {
        "order_id": {
            "description": "Number of an order.",
            "pattern": "^A-[0-9]+$",
            "question": {"en": "Which order?", "fr": "Quelle commande ?"},
            "question_for": {"refund": {"en": "Which order shall be refunded?"}},
        },
        "topic": {
            "description": "What help is wanted about.",
            "type": "choice",
            "choices": {
                "fees": {"label": {"en": "Fees", "fr": "Frais"}, "aliases": ["costs"]},
                "delays": {"label": {"en": "Delays"}, "aliases": ["how long"]},
            },
            "question": {"en": "About what?"},
            "restricted": True,
            "expires_after_seconds": 1800,
        },
        "copies": {
            "description": "Number of copies.",
            "type": "integer",
            "minimum": 1,
            "maximum": 9,
            "question": {"en": "How many copies?"},
        },
        "total": {"description": "An amount.", "type": "number"},
        "receipt": {
            "description": "Whether a receipt is wanted.",
            "type": "boolean",
            "question": {"en": "Send a receipt?"},
        },
        "note": {
            "description": "A remark.",
            "max_length": 50,
            "question": {"en": "Any remark?"},
            "suggestions": ["none", "call me"],
        },
        "customer": {"description": "The authenticated customer."},
    },
    "answers": {
        "order_status": {
            "description": "Where an order is.",
            "of_tool": "get_order",
            "text": {"en": "Order {order_id} is {status}; it costs {total}."},
        },
        "no_order": {
            "description": "No such order.",
            "of_tool": "get_order",
            "text": {"en": "There is no order {order_id} ({error})."},
        },
        "refunded": {"description": "Done.", "of_tool": "refund", "text": {"en": "{refund_id}"}},
        "hours": {
            "description": "Opening hours.",
            "subject": "shop",
            "text": {"en": "We open at nine.", "fr": "Nous ouvrons à neuf heures."},
        },
        "greeting": {"description": "Hello.", "text": {"en": "Hello {note}!"}},
    },
    "rules": {
        "missing_permission": {"description": "No right.", "text": {"en": "You may not."}},
        "fraud": {"description": "Fraud.", "text": {"en": "We do not do that."}},
    },
    "queues": {
        "general": {"description": "Everything.", "text": {"en": "A person will help."}},
        "outages": {
            "description": "Outages.",
            "text": {"en": "We are down."},
            "causes": ["tool_unavailable", "outcome_unknown"],
        },
    },
    "channels": {
        "web": {"type": "webchat"},
        "french": {"type": "webchat", "default_locale": "fr"},
        "mail": {"type": "other"},
        "draft": {"type": "webchat", "publication": False},
    },
    "agents": {"shop": {"description": "The shop.", "maxSteps": 4, "maxQuestions": 2}},
    "thresholds": {"answer": 0.2, "ask": 0.1, "near_tie_margin": 0.05},
}


def _no_long_order(arguments: Mapping[str, JsonValue]) -> ArgumentFault | None:
    if len(str(arguments.get("order_id", ""))) > 12:
        return ArgumentFault("/order_id", "maxLength", "is too long")
    return None


def ruleset(limits: Limits | None = None, **changes: Any) -> Ruleset:
    """The small catalog, compiled, with top-level keys of its definition changed."""
    return Ruleset(
        catalog=Catalog.model_validate({**DEFINITION, **changes}),
        decision_version="d1",
        presentation_version="p1",
        limits=limits or Limits(),
        checks={"get_order": _no_long_order},
    )


RULES = ruleset()


def with_limits(**changes: int) -> Ruleset:
    """The small catalog under other limits."""
    return ruleset(replace(Limits(), **changes))  # type: ignore[arg-type]
