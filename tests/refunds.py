"""A tool with a side effect, as a function: every refund is a line of a file that outlives all."""

import os
import time
from pathlib import Path
from typing import Any, Final

from turnstream.tools import NotExecuted

LEDGER: Final = "TEST_REFUND_LEDGER"
"""Variable that names the file."""

ORDER_ID: Final = {
    "type": "object",
    "required": ["order_id"],
    "properties": {"order_id": {"type": "string"}},
}

TOOL: Final[dict[str, Any]] = {
    "description": "Refund an order.",
    "data_scope": "public",
    "input_schema": ORDER_ID,
    "result_schema": {"type": "object", "properties": {"refunded": {"type": "string"}}},
    "effect": "write",
    "threshold": 0.5,
    "timeout_seconds": 3,
    "arguments": {"order_id": {"provenance": ["message"]}},
    "binding": {"kind": "function", "target": f"{__name__}:refund"},
}


def ledger() -> Path:
    """The file."""
    return Path(os.environ[LEDGER])


def refund(order_id: str, idempotency_key: str) -> dict[str, str]:
    """Refund; how it goes is in the order's name.

    `A-slow...` hangs before it, `A-lost...` after it, but only as long as the file for it is there.
    `A-pair...` waits until two of that name have begun.
    """
    if order_id.startswith("A-pair"):
        _meet()
    if order_id.startswith("A-slow"):
        _hang()
    with ledger().open("a") as lines:
        lines.write(f"{idempotency_key}\n")
    if order_id.startswith("A-lost"):
        _hang()
    return {"refunded": order_id}


def refund_by_key(order_id: str, idempotency_key: str) -> dict[str, str]:
    """What became of a refund.

    Raises:
        NotExecuted: There was none with this key.
    """
    if idempotency_key not in done():
        raise NotExecuted
    return {"refunded": order_id}


def hanging() -> Path:
    """While it is there, calls hang; each that does has begun a line in it."""
    return ledger().with_suffix(".hang")


def done() -> list[str]:
    """The keys of all refunds."""
    return ledger().read_text().splitlines() if ledger().exists() else []


def _meet() -> None:
    begun = ledger().with_suffix(".begun")
    with begun.open("a") as lines:
        lines.write("here\n")
    while len(begun.read_text().splitlines()) < 2:
        time.sleep(0.05)


def _hang() -> None:
    if not hanging().exists():
        return
    with hanging().open("a") as lines:
        lines.write("here\n")
    while hanging().exists():
        time.sleep(0.05)
