"""The deployment under chaos: deciders and tools whose replies nobody can work out afterwards.

Both write to append-only files in the folder that `CHAOS_FOLDER` names, which no failure of a
process can take back: what the checker knows beside the topics.

Two tools fail: `book`, which remembers the keys of its effects and may be called again, and
`transfer`, which may not but can be asked what became of a call.
"""

import asyncio
import hashlib
import os
import re
import resource
import secrets
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Awaitable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from turnstream.core.definitions import Catalog
from turnstream.core.ports import Classification, DecisionRequest, Exchange, Proposal
from turnstream.tools import NotExecuted

FOLDER: Final = "CHAOS_FOLDER"
EFFECTS: Final = "effects.log"
DECIDER: Final = "decider.log"
REPLIES: Final = "replies.log"
FAILURES: Final = "failures.log"
"""Calls that failed, and those of them whose effect there was."""
ASKED: Final = "asked.log"
"""Questions what became of a call."""
REPLY: Final = "reply"
"""Key of a reply's number in the diagnostics of a decision."""

NO_TOOL: Final = "no_such_tool"
"""What the decider proposes now and then: it must be refused, and is asked once more."""
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


@dataclass(frozen=True, slots=True)
class Effect:
    """One call that reached a tool."""

    tool: str
    action_id: str
    at: int
    """Milliseconds since the epoch."""
    pid: int
    slow: bool

    @property
    def slow_write(self) -> bool:
        """Whether it takes long and changes something."""
        return self.slow and self.tool != "look_up"


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
    if _has_effect(idempotency_key):
        return {"status": status}
    said = await _called("book", order_id, idempotency_key, status)
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
    _append(ASKED, {"action_id": idempotency_key, "pid": os.getpid()})
    key = f"{idempotency_key}?"
    _tried[key] += 1
    if _tried[key] == 1 and zlib.crc32(idempotency_key.encode()) % 3 == 0:
        raise ConnectionError
    await asyncio.sleep(0)
    if not _has_effect(idempotency_key):
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
    _append(FAILURES, {"tool": tool, "action_id": action_id, "done": done})
    raise ConnectionError


def _has_effect(action_id: str) -> bool:
    """Look into what no failure of a process can take back."""
    wanted = orjson.dumps({"action_id": action_id})[1:-1]
    folder = Path(os.environ[FOLDER])
    return any(wanted in path.read_bytes() for path in _parts(folder / EFFECTS))


async def _called(tool: str, order_id: str, action_id: str, status: str) -> dict[str, str]:
    slow = order_id.startswith(SLOW_ORDER)
    about = {"tool": tool, "action_id": action_id, "at": _now_ms(), "pid": os.getpid()}
    # Before any wait: what a cancelled or killed call has done is done.
    _append(EFFECTS, {**about, "slow": slow}, durable=True)
    await asyncio.sleep(1.5 if slow else zlib.crc32(order_id.encode()) % 50 / 1000)
    return {"status": status}


def effects(folder: Path) -> list[Effect]:
    """Every call that reached a tool, in order."""
    return sorted((Effect(**line) for line in _lines(folder / EFFECTS)), key=lambda one: one.at)


def failures(folder: Path) -> int:
    """How many calls have failed."""
    return len(_lines(folder / FAILURES))


def questions(folder: Path) -> int:
    """How often a tool was asked what became of a call."""
    return len(_lines(folder / ASKED))


# --- the decider ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the decider, as it was logged before anybody had it."""

    number: str
    """Stands in the diagnostics of the decision that is made of it."""
    pid: int
    proposal: Proposal


def asked(request: DecisionRequest) -> str:
    """Name a request by all that it says: a process after a crash asks the same again."""
    text = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:24]


def replied(request: DecisionRequest) -> Proposal:
    """Propose what nobody could propose again, and log it before it is given.

    Raises:
        RuntimeError: The turn holds the word that stands for a defect.
    """
    if BUG in request.latest:
        message = "a defect"
        raise RuntimeError(message)
    proposal = _decided(request, secrets.randbits(64))
    line = {"request": asked(request), "pid": os.getpid(), "proposal": proposal}
    _append(REPLIES, line)
    return proposal


def replies(folder: Path) -> Mapping[str, Sequence[Reply]]:
    """Every reply that was given, by what was asked; more than one where a process was lost."""
    found: dict[str, list[Reply]] = defaultdict(list)
    for line in _lines(folder / REPLIES):
        proposal = Proposal(**line["proposal"])
        number = str(proposal.diagnostics[REPLY])
        found[line["request"]].append(Reply(number, line["pid"], proposal))
    return found


def _decided(request: DecisionRequest, number: int) -> Proposal:
    """Choose by a number that is used once: which answer, how sure, and now and then nonsense."""
    latest = request.latest
    about = {
        "diagnostics": {REPLY: f"{number:016x}"},
        "confidence": 0.9 + number % 100 / 1000,
    }
    if request.fault is None and number % 50 == 0:
        return _proposal("call_tool", "lookup_required", tool=NO_TOOL, **about)
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
            _append(DECIDER, {"key": key, "pid": os.getpid(), "what": "begins"})
            try:
                await asyncio.sleep(latency / 1000)
                return replied(request)
            finally:
                _append(DECIDER, {"key": key, "pid": os.getpid(), "what": "ends"})

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
    """How many replies were given to a request that had one: the first was lost with its process.

    Embedded or behind a wait, every reply is logged; a request in other words is another one.
    """
    return sum(len(given) - 1 for given in replies(folder).values())


def unrepeated(folder: Path, committed: Container[str | None]) -> int:
    """How many requests led to nothing and were never made again in the same words."""
    return sum(
        not any(one.number in committed or one.proposal.tool == NO_TOOL for one in given)
        for given in replies(folder).values()
    )


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
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        # The disk that is full to this process is not that of its tools and its decider.
        path = path.with_name(f"{name}.{os.getpid()}")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, orjson.dumps(line) + b"\n")
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for part in _parts(path) for line in part.read_bytes().splitlines()]


def _parts(path: Path) -> list[Path]:
    """The files of a log: the common one, then those of processes with a full disk."""
    return [one for one in (path, *sorted(path.parent.glob(f"{path.name}.*"))) if one.exists()]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
