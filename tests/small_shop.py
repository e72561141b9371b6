"""A small deployment's own code: its catalog, its decider, its tools."""

from collections.abc import Awaitable
from typing import Any, Final

from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Proposal

BUG: Final = "explode"
"""A turn with this word makes the decider raise."""
HELP: Final = "human"
"""A turn with this word is handed off."""
ORDER: Final = "order"
"""A turn with this word wants an order's status."""

CATALOG: Final[dict[str, Any]] = {
    "default_locale": "en",
    "entry_agent": "shop",
    "default_queue": "general",
    "agents": {"shop": {"description": "The shop.", "decider": "by_word"}},
    "queues": {"general": {"description": "All.", "text": {"en": "A person will reply."}}},
    "channels": {"web": {"type": "webchat"}},
    "rules": {"missing_permission": {"description": "No right.", "text": {"en": "You may not."}}},
    "categories": {"delivery": {"description": "Where an order is."}},
    "fields": {
        "order_id": {
            "description": "Number of an order.",
            "pattern": "A-[0-9]+",
            "question": {"en": "Which order?"},
        }
    },
    "tools": {
        "get_order": {
            "description": "Look up an order.",
            "subject": "order",
            "data_scope": "public",
            "input_schema": {
                "type": "object",
                "required": ["order_id"],
                "additionalProperties": False,
                "properties": {"order_id": {"type": "string"}},
            },
            "result_schema": {"type": "object", "properties": {"status": {"type": "string"}}},
            "effect": "read",
            "arguments": {"order_id": {"provenance": ["message"]}},
            "answer": "order_status",
            "binding": {"kind": "function", "target": f"{__name__}:get_order"},
        }
    },
    "answers": {
        "order_status": {
            "description": "Where an order is.",
            "of_tool": "get_order",
            "text": {"en": "Order {order_id} is {status}."},
        },
        "hours": {"description": "Opening hours.", "text": {"en": "We open at nine."}},
    },
}


def get_order(order_id: str) -> dict[str, str]:
    """The status of an order."""
    return {"status": f"shipped as {order_id}"}


class ByWord:
    """Decides by the words above; anything else is answered with the opening hours."""

    name = "by-word-1"

    def propose(self, request: DecisionRequest) -> Proposal:
        """Propose one step.

        Raises:
            RuntimeError: The turn holds the word that stands for a defect.
        """
        if BUG in request.latest:
            message = f"a defect, quoting {request.latest}"
            raise RuntimeError(message)
        if HELP in request.latest:
            return _proposal("handoff", "unsupported")
        if request.facts:
            return _proposal("answer", "context_sufficient", answer_id="order_status")
        if ORDER not in request.latest and request.answered_field is None:
            return _proposal("answer", "context_sufficient", answer_id="hours")
        if "order_id" in request.known:
            return _proposal("call_tool", "lookup_required", tool="get_order")
        return _proposal("ask", "missing_input", missing_field="order_id", needed_for="get_order")


class Patient:
    """The same, after a turn of the event loop: as a model on the network would."""

    name = "patient-1"

    def propose(self, request: DecisionRequest) -> Awaitable[Proposal]:
        """Propose one step, later."""

        async def later() -> Proposal:
            return ByWord().propose(request)

        return later()


def by_word(_catalog: Catalog) -> ByWord:
    """The live decider."""
    return ByWord()


def patient(_catalog: Catalog) -> Patient:
    """A candidate that decides alike."""
    return Patient()


def _proposal(action: str, reason_code: str, **changes: Any) -> Proposal:
    given: dict[str, Any] = {
        "action": action,
        "tool": None,
        "missing_field": None,
        "reason_code": reason_code,
        "model": "by-word-1",
        "confidence": 1.0,
        "confidence_kind": "certain",
        **changes,
    }
    return Proposal(**given)
