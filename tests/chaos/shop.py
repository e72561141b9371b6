"""The deployment under chaos: deciders and tools whose replies nobody can work out afterwards.

Both write down what they do (:mod:`tests.chaos.logs`): what the checker knows beside the topics.

Two tools fail: `book`, which remembers the keys of its effects and may be called again, and
`transfer`, which may not but can be asked what became of a call.
"""

import asyncio
import os
import re
import secrets
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from tests.chaos import logs
from turnstream.core.definitions import Catalog
from turnstream.core.ports import Classification, DecisionRequest, Exchange, Proposal
from turnstream.tools import NotExecuted

BUG: Final = "explode"
"""A turn with this word makes the decider raise."""
SLOW_ORDER: Final = "A-9"
"""Orders whose number begins like this take the tool one and a half seconds."""

QUESTION_SECONDS: Final = 8.0
"""Life of a question: longer than it takes to answer it, shorter than most silences of a run."""

_WAIT: Final = re.compile(r"wait:([0-9]+)", re.ASCII)
_TAG: Final = re.compile(r"\[([^/\]]+)/", re.ASCII)


def _tool(name: str, effect: str, **changes: Any) -> dict[str, Any]:
    return {
        "description": f"The tool {name}.",
        "subject": "order",
        "data_scope": "public",
        "input_schema": {
            "type": "object",
            "required": ["order_id"],
            "additionalProperties": False,
            "properties": {"order_id": {"type": "string"}},
        },
        "result_schema": {"type": "object", "properties": {"status": {"type": "string"}}},
        "effect": effect,
        "timeout_seconds": 6,
        "arguments": {"order_id": {"provenance": ["message"]}},
        "answer": f"{name}_said",
        "binding": {"kind": "function", "target": f"{__name__}:{name}"},
        **changes,
    }


CATALOG: Final[dict[str, Any]] = {
    "default_locale": "en",
    "entry_agent": "shop",
    "default_queue": "general",
    "agents": {"shop": {"description": "The shop.", "decider": "scripted"}},
    "queues": {"general": {"description": "All.", "text": {"en": "A person will reply."}}},
    "channels": {"web": {"type": "webchat"}},
    "rules": {"missing_permission": {"description": "No right.", "text": {"en": "You may not."}}},
    "fields": {
        "order_id": {
            "description": "Number of an order.",
            "pattern": "A-[0-9]+",
            "question": {"en": "Which order?"},
            "expires_after_seconds": QUESTION_SECONDS,
        }
    },
    "tools": {
        "look_up": _tool("look_up", "read"),
        "refund": _tool("refund", "write", threshold=0.5),
        "book": _tool(
            "book",
            "write",
            threshold=0.5,
            idempotent=True,
            retry={"attempts": 4, "backoff_seconds": 0.1},
            breaker={"cool_down_seconds": 2},
        ),
        "transfer": _tool(
            "transfer",
            "write",
            threshold=0.5,
            retry={"attempts": 4, "backoff_seconds": 0.1},
            breaker={"cool_down_seconds": 2},
            binding={
                "kind": "function",
                "target": f"{__name__}:transfer",
                "reconcile": f"{__name__}:transferred",
            },
        ),
    },
    "answers": {
        **{
            f"{name}_said": {
                "description": f"What {name} did.",
                "of_tool": name,
                "text": {"en": "Order {order_id} is {status}."},
            }
            for name in ("look_up", "refund", "book", "transfer")
        },
        "hours": {"description": "Opening hours.", "text": {"en": "We open at nine."}},
        "parking": {"description": "Where to park.", "text": {"en": "Park behind the shop."}},
    },
    "categories": {
        "orders": {"description": "About an order."},
        "visits": {"description": "About a visit."},
    },
}


# --- the tools ------------------------------------------------------------------------------------


async def look_up(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Say how an order is."""
    return await _called("look_up", order_id, idempotency_key, "shipped")


async def refund(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Give money back; a second call with the same key gives it back again."""
    return await _called("refund", order_id, idempotency_key, "refunded")


async def book(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Book a visit; a second call with the same key finds it booked. Some calls fail."""
    status = "booked"
    before, after = _troubles(order_id)
    tried = _tried[idempotency_key]
    _tried[idempotency_key] += 1
    if tried < before:
        _fail("book", idempotency_key, done=False)
    looked = _now_ms()
    if logs.has_effect(idempotency_key):
        return {"status": status}
    said = await _called("book", order_id, idempotency_key, status, looked=looked)
    if tried < before + after:
        _fail("book", idempotency_key, done=True)
    return said


async def transfer(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Send goods elsewhere; a second call sends more of them. Some replies are lost."""
    before, after = _troubles(order_id)
    if before:
        _fail("transfer", idempotency_key, done=False)
    said = await _called("transfer", order_id, idempotency_key, "transferred")
    if after:
        _fail("transfer", idempotency_key, done=True)
    return said


async def transferred(idempotency_key: str) -> dict[str, str]:
    """Say what became of a transfer; every third question is not answered at first.

    Raises:
        ConnectionError: The question was not answered.
        NotExecuted: There was no such transfer. An executor that has lost the call cannot make it.
    """
    logs.append(logs.ASKED, {"action_id": idempotency_key, "pid": os.getpid()})
    key = f"{idempotency_key}?"
    _tried[key] += 1
    if _tried[key] == 1 and zlib.crc32(idempotency_key.encode()) % 3 == 0:
        raise ConnectionError
    await asyncio.sleep(0)
    if not logs.has_effect(idempotency_key):
        raise NotExecuted
    return {"status": "transferred"}


_tried: Final[Counter[str]] = Counter()
"""Key of a call to how often this process has made it: another one may fail as often again."""


def _troubles(order_id: str) -> tuple[int, int]:
    """How often calls about an order fail before their effect, and then how often after it."""
    return _TROUBLES.get(zlib.crc32(order_id.encode()) % 12, (0, 0))


_TROUBLES: Final[Mapping[int, tuple[int, int]]] = {0: (0, 1), 1: (1, 0), 2: (1, 1)}
"""For a quarter of the orders, which come from the seed of the traffic."""


def _fail(tool: str, action_id: str, *, done: bool) -> None:
    logs.append(logs.FAILURES, {"tool": tool, "action_id": action_id, "done": done})
    raise ConnectionError


async def _called(
    tool: str, order_id: str, action_id: str, status: str, *, looked: int | None = None
) -> dict[str, str]:
    slow = order_id.startswith(SLOW_ORDER)
    about = {"tool": tool, "action_id": action_id, "at": _now_ms(), "pid": os.getpid()}
    # Before any wait: what a cancelled or killed call has done is done.
    logs.append(logs.EFFECTS, {**about, "slow": slow, "looked": looked}, durable=True)
    await asyncio.sleep(1.5 if slow else zlib.crc32(order_id.encode()) % 50 / 1000)
    return {"status": status}


# --- the decider ----------------------------------------------------------------------------------


def replied(request: DecisionRequest) -> Proposal:
    """Propose what nobody could propose again, and log it before it is given.

    Raises:
        RuntimeError: The turn holds the word that stands for a defect.
    """
    if BUG in request.latest:
        message = "a defect"
        raise RuntimeError(message)
    proposal = _decided(request, secrets.randbits(64))
    line = {"request": logs.asked(request), "pid": os.getpid(), "proposal": proposal}
    logs.append(logs.REPLIES, line)
    return proposal


def _decided(request: DecisionRequest, number: int) -> Proposal:
    """Choose by a number that is used once: which answer, how sure, and now and then nonsense."""
    latest = request.latest
    about = {
        "diagnostics": {logs.REPLY: f"{number:016x}"},
        "confidence": 0.9 + number % 100 / 1000,
    }
    if request.fault is None and number % 50 == 0:
        return _proposal("call_tool", "lookup_required", tool=logs.NO_TOOL, **about)
    if "human" in latest:
        return _proposal("handoff", "unsupported", **about)
    if request.facts:
        fact = request.facts[-1]
        if fact.outcome == "done" and not fact.superseded:
            name = f"{fact.tool}_said"
            return _proposal("answer", "context_sufficient", answer_id=name, **about)
        if fact.outcome != "done":
            return _proposal("handoff", "unsupported", **about)
    tool = next((name for name in CATALOG["tools"] if name in latest), request.open_intent)
    if tool not in CATALOG["tools"]:
        name = ("hours", "parking")[number % 2]
        return _proposal("answer", "context_sufficient", answer_id=name, **about)
    if "order_id" in request.known:
        return _proposal("call_tool", "lookup_required", tool=tool, **about)
    asking = {"missing_field": "order_id", "needed_for": tool}
    return _proposal("ask", "missing_input", **asking, **about)


class Scripted:
    """The decider with the latency of a model, 0 to 200 ms, and a log of when it was at work."""

    name = "scripted-1"

    def propose(self, request: DecisionRequest) -> Proposal | Awaitable[Proposal]:
        """Propose one step, at once or after a while."""
        said = [message.text for message in request.messages if message.role == "customer"]
        last = said[-1] if said else ""
        found = _TAG.search(last)
        key = found.group(1) if found else ""
        wait = _WAIT.search(request.latest)
        latency = int(wait.group(1)) if wait else zlib.crc32(last.encode()) % 250 - 50
        if latency <= 0 or request.fault is not None:
            return replied(request)

        async def later() -> Proposal:
            logs.append(logs.DECIDER, {"key": key, "pid": os.getpid(), "what": "begins"})
            try:
                await asyncio.sleep(latency / 1000)
                return replied(request)
            finally:
                logs.append(logs.DECIDER, {"key": key, "pid": os.getpid(), "what": "ends"})

        return later()


def scripted(_catalog: Catalog) -> Scripted:
    """The live decider."""
    return Scripted()


class Other:
    """The decider of the shadow: at once, and no two of its proposals are the same."""

    name = "other-1"

    def propose(self, request: DecisionRequest) -> Proposal:
        """Propose one step."""
        return _decided(request, secrets.randbits(64))


def other(_catalog: Catalog) -> Other:
    """The shadow's candidate."""
    return Other()


class Labeller:
    """A classifier that never says the same twice, at once or after a while."""

    def classify(self, exchange: Exchange) -> Classification | Awaitable[Classification]:
        """Label an exchange."""
        number = secrets.randbits(64)
        names = tuple(CATALOG["categories"])
        said = Classification(f"{number:016x}", (names[number % 2],), "labeller-1")
        if number % 4:
            return said

        async def later() -> Classification:
            await asyncio.sleep(zlib.crc32(exchange.exchange_id.encode()) % 100 / 1000)
            return said

        return later()


def labeller(_catalog: Catalog) -> Labeller:
    """The classifier."""
    return Labeller()


def _proposal(action: str, reason_code: str, **changes: Any) -> Proposal:
    given: dict[str, Any] = {
        "action": action,
        "tool": None,
        "missing_field": None,
        "reason_code": reason_code,
        "model": Scripted.name,
        "confidence": 1.0,
        "confidence_kind": "certain",
        **changes,
    }
    return Proposal(**given)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
