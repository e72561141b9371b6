"""The deployment under chaos: a decider that is a function of its request, tools with a log.

Both write to append-only files in the folder that `CHAOS_FOLDER` names, which no failure of a
process can take back: what the checker knows beside the topics.
"""

import asyncio
import os
import re
import time
import zlib
from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Proposal

FOLDER: Final = "CHAOS_FOLDER"
EFFECTS: Final = "effects.log"
DECIDER: Final = "decider.log"

BUG: Final = "explode"
"""A turn with this word makes the decider raise."""
SLOW_ORDER: Final = "A-9"
"""Orders whose number begins like this take the tool one and a half seconds."""

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
        }
    },
    "tools": {
        "look_up": _tool("look_up", "read"),
        "refund": _tool("refund", "write", threshold=0.5),
        "book": _tool("book", "write", threshold=0.5, idempotent=True),
    },
    "answers": {
        **{
            f"{name}_said": {
                "description": f"What {name} did.",
                "of_tool": name,
                "text": {"en": "Order {order_id} is {status}."},
            }
            for name in ("look_up", "refund", "book")
        },
        "hours": {"description": "Opening hours.", "text": {"en": "We open at nine."}},
    },
}


# --- the tools ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effect:
    """One call that reached a tool."""

    tool: str
    action_id: str
    at: int
    """Milliseconds since the epoch."""
    pid: int


async def look_up(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Say how an order is."""
    return await _called("look_up", order_id, idempotency_key, "shipped")


async def refund(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Give money back; a second call with the same key gives it back again."""
    return await _called("refund", order_id, idempotency_key, "refunded")


async def book(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Book a visit; a second call with the same key finds it booked."""
    return await _called("book", order_id, idempotency_key, "booked")


async def _called(tool: str, order_id: str, action_id: str, status: str) -> dict[str, str]:
    line = {"tool": tool, "action_id": action_id, "at": _now_ms(), "pid": os.getpid()}
    # Before any wait: what a cancelled or killed call has done is done.
    _append(EFFECTS, line, durable=True)
    slow = order_id.startswith(SLOW_ORDER)
    await asyncio.sleep(1.5 if slow else zlib.crc32(order_id.encode()) % 50 / 1000)
    return {"status": status}


def effects(folder: Path) -> list[Effect]:
    """Every call that reached a tool, in order."""
    return [Effect(**line) for line in _lines(folder / EFFECTS)]


# --- the decider ----------------------------------------------------------------------------------


def decided(request: DecisionRequest) -> Proposal:
    """What is proposed for a request: nothing else is known, so a replay proposes the same.

    Raises:
        RuntimeError: The turn holds the word that stands for a defect.
    """
    latest = request.latest
    if BUG in latest:
        message = "a defect"
        raise RuntimeError(message)
    if request.fault is not None or "human" in latest:
        return _proposal("handoff", "unsupported")
    if request.facts:
        fact = request.facts[-1]
        if fact.outcome == "done" and not fact.superseded:
            return _proposal("answer", "context_sufficient", answer_id=f"{fact.tool}_said")
        if fact.outcome != "done":
            return _proposal("handoff", "unsupported")
    tool = next((name for name in CATALOG["tools"] if name in latest), request.open_intent)
    if tool not in CATALOG["tools"]:
        return _proposal("answer", "context_sufficient", answer_id="hours")
    if "order_id" in request.known:
        return _proposal("call_tool", "lookup_required", tool=tool)
    return _proposal("ask", "missing_input", missing_field="order_id", needed_for=tool)


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
        # A turn and the results since: what a replay asks again.
        about = f"{last[:40]} {len(request.messages)} {len(request.facts)} {request.fault}"
        latency = int(wait.group(1)) if wait else zlib.crc32(last.encode()) % 250 - 50
        if latency <= 0:
            return decided(request)

        async def later() -> Proposal:
            _append(DECIDER, {"key": key, "pid": os.getpid(), "what": "begins", "about": about})
            try:
                await asyncio.sleep(latency / 1000)
                return decided(request)
            finally:
                _append(DECIDER, {"key": key, "pid": os.getpid(), "what": "ends"})

        return later()


def scripted(_catalog: Catalog) -> Scripted:
    """The live decider."""
    return Scripted()


def overlaps(folder: Path) -> list[str]:
    """Conversations that one process decided twice at the same time."""
    at_work: set[tuple[int, str]] = set()
    found: list[str] = []
    for line in _lines(folder / DECIDER):
        one = (line["pid"], line["key"])
        if line["what"] == "ends":
            at_work.discard(one)
        elif one in at_work:
            found.append(line["key"])
        else:
            at_work.add(one)
    return found


def repeated(folder: Path) -> int:
    """How many proposals were made once more, because the first was lost with its process."""
    seen: Counter[str] = Counter(
        line["about"] for line in _lines(folder / DECIDER) if line["what"] == "begins"
    )
    return sum(count - 1 for count in seen.values())


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


# --- the logs -------------------------------------------------------------------------------------


def _append(name: str, line: Mapping[str, object], *, durable: bool = False) -> None:
    path = Path(os.environ[FOLDER]) / name
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, orjson.dumps(line) + b"\n")
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
