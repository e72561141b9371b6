"""The other side of a tool: one behaviour, behind functions and behind HTTP.

What it does is named by the order that it is asked about.
"""

import asyncio
import json
import threading
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from tests.unit.tools.shop import http_reply
from turnstream.tools import NotExecuted, ToolFailure

SECRET: Final = "secret-of-the-warehouse"
"""Stands in everything that a tool says beside its result: it must not come back."""


@dataclass(frozen=True)
class Asked:
    """What a call has brought."""

    order_id: str
    key: str
    customer: str | None


@dataclass
class Warehouse:
    """What the other side has seen, and what it waits for."""

    calls: list[Asked] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    """Keys of the calls that somebody asked about."""
    open: threading.Event = field(default_factory=threading.Event)
    """Set at the end of a test: whoever is silent gives up."""

    def result(self, order_id: str) -> dict[str, Any]:
        """The result, with more than its schema declares."""
        if order_id == "huge":
            return {"order_id": "A" * 1_100_000, "status": "shipped"}
        if order_id == "nonsense":
            return {"order_id": order_id, "status": SECRET}
        return {"order_id": order_id, "status": "shipped", "note": SECRET}


HOUSE = Warehouse()
"""The one that functions find; renewed before each test by `reopened`."""


def reopened() -> Warehouse:
    """A warehouse that has seen nothing."""
    HOUSE.open.set()
    HOUSE.calls, HOUSE.questions, HOUSE.open = [], [], threading.Event()
    return HOUSE


# --- as functions -------------------------------------------------------------------------------


def order(order_id: str, idempotency_key: str, subject_id: str | None) -> dict[str, Any]:
    """The tool as a function."""
    HOUSE.calls.append(Asked(order_id, idempotency_key, subject_id))
    if order_id == "silent":
        HOUSE.open.wait(30)
    return _returned(order_id)


async def order_later(
    order_id: str, idempotency_key: str, subject_id: str | None
) -> dict[str, Any]:
    """The tool as a coroutine function."""
    HOUSE.calls.append(Asked(order_id, idempotency_key, subject_id))
    await asyncio.sleep(30 if order_id == "silent" else 0)
    return _returned(order_id)


def became_of(order_id: str, idempotency_key: str) -> dict[str, Any]:
    """What became of a call, as a function."""
    HOUSE.questions.append(idempotency_key)
    if order_id == "silent":
        HOUSE.open.wait(30)
    return _told(order_id)


async def became_of_later(order_id: str, idempotency_key: str) -> dict[str, Any]:
    """What became of a call, as a coroutine function."""
    HOUSE.questions.append(idempotency_key)
    await asyncio.sleep(30 if order_id == "silent" else 0)
    return _told(order_id)


def _returned(order_id: str) -> dict[str, Any]:
    match order_id:
        case "missing":
            raise ToolFailure("order_not_found")
        case "odd":
            raise ToolFailure(SECRET)
        case "broken":
            raise ConnectionResetError(SECRET)
        case "bug":
            raise RuntimeError(SECRET)
    return HOUSE.result(order_id)


def _told(order_id: str) -> dict[str, Any]:
    match order_id:
        case "never":
            raise NotExecuted
        case "broken":
            raise ConnectionResetError(SECRET)
        case "bug":
            raise RuntimeError(SECRET)
    return HOUSE.result(order_id)


# --- over HTTP ----------------------------------------------------------------------------------


def answered(request: bytes) -> bytes | None:
    """The reply of a service to `GET /orders/<id>` and `GET /calls/<key>/<id>`."""
    head, *lines = request.decode().split("\r\n")
    _, where, *given = unquote(head.split(" ")[1]).split("/")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    order_id = given[-1]
    if where == "calls":
        HOUSE.questions.append(given[0])
    else:
        HOUSE.calls.append(Asked(order_id, headers["idempotency-key"], headers.get("x-customer")))
    match order_id:
        case "silent":
            return None
        case "broken":
            return b""
        case "bug":
            return http_reply(SECRET.encode(), "500 Internal Server Error")
        case "never":
            return _refusal("not_found")
        case "missing":
            return _refusal("order_not_found")
        case "odd":
            return _refusal(SECRET)
    return http_reply(json.dumps(HOUSE.result(order_id)).encode())


def _refusal(code: str) -> bytes:
    body = json.dumps({"error": {"code": code, "message": SECRET}}).encode()
    return http_reply(body, "404 Not Found")
