"""The demo's shop: the small HTTP service behind the tools of the demo's catalog.

It does what a service of its kind should: it knows its customers, honours idempotency keys, and
says with a code why it refuses. Some orders meet an outage, see :mod:`turnstream.demo.shop_data`.
``GET /effects`` lists what has really been done. Start it with ``python -m turnstream.demo.shop``.
"""

import argparse
import asyncio
import hashlib
import json
import socket
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from http import HTTPStatus
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from turnstream.demo.shop_data import (
    FLAKY_FAILURES,
    GUIDE,
    LABEL_DAYS,
    REFUND_DAYS,
    RETURN_DAYS,
    Order,
    availability,
    order,
)

__all__ = ["Effect", "Shop", "main"]

SILENCE_SECONDS: Final = 60.0
"""How long a silent order keeps its caller waiting: longer than any time-out of the catalog."""

_REMEMBERED: Final = 10_000
"""Effects and idempotency keys kept: a load test must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that was really done."""

    effect: str
    order_id: str
    idempotency_key: str
    customer_id: str


class _RefusedError(Exception):
    """The shop will not do it: status and code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code


class Shop:
    """The shop's state and its web application.

    Args:
        today: the current day.
        silence_seconds: how long a silent order keeps its caller waiting.
    """

    def __init__(
        self,
        *,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        self._today = today
        self._silence_seconds = silence_seconds
        self._looked_up: Counter[str] = Counter()
        self._replies: dict[str, tuple[str, JSONResponse]] = {}
        """Idempotency key to the order and the reply that it got."""
        self._cancelled: set[str] = set()
        self.effects: deque[Effect] = deque(maxlen=_REMEMBERED)

    def application(self) -> Starlette:
        """The web application."""
        return Starlette(
            routes=[
                Route("/orders/{order_id}", self._order_status),
                Route("/orders/{order_id}/cancellation", self._cancellation, methods=["POST"]),
                Route("/orders/{order_id}/return-label", self._return_label, methods=["POST"]),
                Route("/delivery-help", self._delivery_help),
                Route("/stores/{city}/stock", self._stock),
                Route("/effects", self._effects),
                Route("/healthz", self._health),
            ],
            exception_handlers={_RefusedError: _refused},
        )

    # --- reading --------------------------------------------------------------------------------

    async def _order_status(self, request: Request) -> JSONResponse:
        found = await self._own_order(request)
        return JSONResponse(
            {
                "order_id": found.order_id,
                "status": "cancelled" if self._is_cancelled(found) else found.status,
                "expected_on": _day(None if self._is_cancelled(found) else found.delivery_on),
                "warehouse_note": "internal: shelf 12",  # in no result schema, so nobody sees it
            }
        )

    async def _delivery_help(self, request: Request) -> JSONResponse:
        topic = request.query_params.get("delivery_topic", "")
        page = GUIDE.get(topic)
        if page is None:
            raise _RefusedError(404, "unknown_topic")
        return JSONResponse(
            {
                "topic": topic,
                "text_fr": page.text_fr,
                "text_en": page.text_en,
                "passages": [
                    {"passage_id": passage_id, "title": title, "text": text}
                    for passage_id, title, text in page.passages
                ],
            }
        )

    async def _stock(self, request: Request) -> JSONResponse:
        product, city = request.query_params.get("product", ""), request.path_params["city"]
        found = availability(product, city)
        if found is None:
            raise _RefusedError(404, "unknown_store_or_product")
        return JSONResponse({"product": product, "city": city, "availability": found})

    # --- writing --------------------------------------------------------------------------------

    async def _cancellation(self, request: Request) -> JSONResponse:
        return await self._once(request, self._cancel)

    def _cancel(self, found: Order) -> tuple[bool, JSONResponse]:
        """Whether something was done, and the reply."""
        done = not self._is_cancelled(found)
        if done and found.status != "preparing":
            raise _RefusedError(409, "already_shipped")
        self._cancelled.add(found.order_id)
        body = {"order_id": found.order_id, "status": "cancelled", "refund_days": REFUND_DAYS}
        return done, _used(found, body)

    async def _return_label(self, request: Request) -> JSONResponse:
        return await self._once(request, self._label)

    def _label(self, found: Order) -> tuple[bool, JSONResponse]:
        """Whether something was done, and the reply."""
        if self._is_cancelled(found) or found.status != "delivered" or found.delivery_on is None:
            raise _RefusedError(409, "not_delivered")
        if self._today() - found.delivery_on > timedelta(days=RETURN_DAYS):
            raise _RefusedError(409, "return_period_over")
        body = {
            "order_id": found.order_id,
            "label_url": f"https://shop.example/labels/{found.order_id}.pdf",
            "valid_until": _day(self._today() + timedelta(days=LABEL_DAYS)),
        }
        return True, _used(found, body)

    async def _once(
        self, request: Request, work: Callable[[Order], tuple[bool, JSONResponse]]
    ) -> JSONResponse:
        """Do something once per idempotency key; a repetition gets the first reply again."""
        key = request.headers.get("Idempotency-Key")
        if not key:
            raise _RefusedError(400, "idempotency_key_required")
        order_id = request.path_params["order_id"]
        known = self._replies.get(key)
        if known is not None:
            if known[0] != request.url.path:
                raise _RefusedError(409, "idempotency_key_reused")
            return known[1]
        found = await self._own_order(request)
        done, reply = work(found)
        if len(self._replies) >= _REMEMBERED:
            del self._replies[next(iter(self._replies))]
        self._replies[key] = (request.url.path, reply)
        if done:
            customer = request.headers["X-Customer-Id"]
            self.effects.append(Effect(work.__name__.strip("_"), order_id, key, customer))
        if found.kind == "silent":
            await asyncio.sleep(self._silence_seconds)
        return reply

    # --- orders ---------------------------------------------------------------------------------

    async def _own_order(self, request: Request) -> Order:
        """The order that the URL names, if the customer may know of it and nothing is broken."""
        if not request.headers.get("X-Customer-Id"):
            raise _RefusedError(401, "customer_required")
        order_id = request.path_params["order_id"]
        found = order(order_id, today=self._today())
        if found is None or found.kind == "foreign":
            raise _RefusedError(404, "order_not_found")
        if found.kind == "outage":
            raise _RefusedError(503, "warehouse_unavailable")
        if found.kind == "flaky":
            self._looked_up[order_id] += 1
            if self._looked_up[order_id] <= FLAKY_FAILURES:
                raise _RefusedError(503, "warehouse_unavailable")
        if found.kind == "silent" and request.method == "GET":
            await asyncio.sleep(self._silence_seconds)
        return found

    def _is_cancelled(self, found: Order) -> bool:
        return found.status == "cancelled" or found.order_id in self._cancelled

    # --- looking in -----------------------------------------------------------------------------

    async def _effects(self, request: Request) -> JSONResponse:
        return JSONResponse({"effects": [asdict(effect) for effect in self.effects]})

    async def _health(self, request: Request) -> JSONResponse:
        return JSONResponse({"ok": True})


async def _refused(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, _RefusedError):
        raise error
    body = {"error": {"code": error.code, "message": error.code.replace("_", " ")}}
    # What is unavailable here is there again at the next question.
    headers = {"Retry-After": "0"} if error.status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return JSONResponse(body, status_code=error.status, headers=headers)


def _used(found: Order, body: Mapping[str, object]) -> JSONResponse:
    """A reply that says which object it used."""
    used = json.dumps({"order_id": found.order_id}, separators=(",", ":")).encode()
    return JSONResponse(body, headers={"X-Used-SHA256": hashlib.sha256(used).hexdigest()})


def _day(day: date | None) -> str:
    return day.isoformat() if day is not None else "none"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the shop until told to stop."""
    parser = argparse.ArgumentParser(prog="turnstream.demo.shop", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    options = parser.parse_args(arguments)
    listener = socket.create_server((options.host, options.port))
    address = f"http://{options.host}:{listener.getsockname()[1]}"
    print(f"shop: {address}", flush=True)  # noqa: T201 - whoever starts it reads the address
    configuration = uvicorn.Config(
        Shop().application(), log_level="warning", access_log=False, lifespan="off"
    )
    uvicorn.Server(configuration).run(sockets=[listener])


if __name__ == "__main__":
    main()
