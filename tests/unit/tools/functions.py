"""Functions that stand for tools."""

import asyncio
import threading
from typing import Any

from turnstream.tools import NotExecuted, ToolFailure

calls: list[dict[str, Any]] = []
released = threading.Event()


def order(order_id: str, idempotency_key: str, subject_id: str | None) -> dict[str, Any]:
    """Takes everything on offer."""
    calls.append({"order_id": order_id, "key": idempotency_key, "subject": subject_id})
    return {"order_id": order_id, "status": "shipped", "margin": 3}


async def order_later(*, order_id: str) -> dict[str, Any]:
    """Takes its argument only, and is asynchronous."""
    await asyncio.sleep(0)
    return {"order_id": order_id, "status": "delivered"}


def fails(order_id: str) -> dict[str, Any]:
    """Raises what its argument names."""
    match order_id:
        case "missing":
            raise ToolFailure("order_not_found")
        case "odd":
            raise ToolFailure("undeclared")
        case "broken":
            raise ConnectionResetError("secret-host")
        case _:
            raise RuntimeError("secret-value")


def hangs(order_id: str) -> dict[str, Any]:
    """Blocks its thread until the test lets go."""
    released.wait(30)
    return {}


def no_json(order_id: str) -> object:
    """Returns something that is not JSON."""
    return object()


def huge(order_id: str) -> dict[str, Any]:
    """Returns too much."""
    return {"order_id": "A" * 1_100_000, "status": "shipped"}


def anything(**arguments: Any) -> dict[str, Any]:
    """Names none of its parameters."""
    return {"order_id": arguments["order_id"], "status": "shipped"}


def sorts(order_id: str, **given: Any) -> dict[str, Any]:
    """Changes what it was given."""
    given["tags"].sort()
    given["address"].pop("zip")
    return {"order_id": order_id, "status": "shipped"}


async def sorts_later(order_id: str, **given: Any) -> dict[str, Any]:
    """The same, asynchronous."""
    return sorts(order_id, **given)


def sorted_before(idempotency_key: str, tags: list[str]) -> dict[str, Any]:
    """Changes what it is asked about."""
    return {"order_id": tags.pop(), "status": "shipped"}


def named_by_its_rest(**filters: Any) -> dict[str, Any]:
    """Takes anything, an argument of its parameter's own name too."""
    return {"order_id": filters["filters"], "status": "shipped"}


NOT_A_FUNCTION = 3


def order_by_key(idempotency_key: str, order_id: str, unrelated: int = 3) -> dict[str, Any]:
    """Says what became of a call, by its key or by its argument."""
    match order_id:
        case "never":
            raise NotExecuted
        case "broken":
            raise ConnectionResetError
        case "bug":
            raise RuntimeError
        case "nothing":
            return {}
    return {"order_id": f"{order_id}/{idempotency_key}", "status": "shipped", "margin": unrelated}


async def order_by_key_later(*, idempotency_key: str) -> dict[str, Any]:
    """The same, asynchronous, for any order."""
    return {"order_id": idempotency_key, "status": "delivered"}
