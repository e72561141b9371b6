"""One request to an MCP server as our side of the connection sees it.

The SDK tells a caller what the server said. What it does not tell - whether a byte went out before
the connection broke, with which status a proxy replied - decides whether a write may have been
carried out, so it is noted here, where the bytes pass. Nothing that goes wrong with one request
ends the connection: others may be under way on it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

import httpx2
import orjson
from mcp.shared.message import SessionMessage
from pydantic import JsonValue

from turnstream.config.secrets import SecretRef, SecretUnavailable, is_reference
from turnstream.core.carried import NOT_OURS
from turnstream.core.json_texts import written
from turnstream.plain_http import retry_after
from turnstream.tools.egress import Egress
from turnstream.tools.errors import BindingError, Unsent, announce
from turnstream.tools.results import RESULT_BYTES

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams, WriteStream

_CALL: Final = "tools/call"
_LISTEN: Final = "subscriptions/listen"
"""Its reply is a stream that lasts as long as the connection."""

_FIRST_BYTE: Final = "send_request_headers.started"
"""The end of the transport's name for the moment before a request's first byte."""

REPLY_BYTES: Final = 4 * RESULT_BYTES
"""Largest reply that is read; servers send the same result twice, as an object and as its text."""

_OWN_SECONDS: Final = 30.0
"""How long a reply to a request of the SDK's own may take: none is read for ever, however much it
says in between."""

_REOPEN_SECONDS: Final = 1.0
"""Wait before a stream is opened again: a server that ends each at once, and asks for no wait,
would be asked without end."""

_EVENTS: Final = "text/event-stream"

_UNREADABLE: Final = object()
"""A body that is no message, or not the same one to every reader."""

NO_REPLY: Final = -32050
"""Our code for a request without a reply, of those that JSON-RPC leaves to implementations."""

_NO_REPLY: Final = orjson.dumps(
    {"jsonrpc": "2.0", "id": None, "error": {"code": NO_REPLY, "message": "no reply"}}
)
"""What the SDK is told when there is no reply, or none that may be read."""

_NEVER_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)

Fault = Literal["unreachable", "broken", "silent", "too_long", "forbidden"]


@dataclass(slots=True)
class Exchange:
    """What is known of one call on its way."""

    sending: Callable[[Mapping[str, JsonValue]], None]
    until: float
    """When nobody waits for it any more, in seconds of the event loop's clock. What is asked for
    it, the list of tools too, is then read no longer: after a time-out the SDK may read on."""
    sent: bool = False
    refused: Unsent | None = None
    """Why it was not to go out."""
    arguments: Mapping[str, JsonValue] | None = None
    """The arguments as they stand in what is sent."""
    fault: Fault | None = None
    secret: str | None = None
    """Which secret could not be read."""
    status: int | None = None
    wait: float | None = None
    """Seconds that the server wants to be left alone."""
    in_session: bool = False

    def leaves(self) -> None:
        """Say that the first byte is about to go out.

        Raises:
            Unsent: it must not.
        """
        try:
            announce(self.sending, self.arguments or {})
        except Unsent as unsent:
            self.refused = unsent
            raise
        self.sent = True

    def begin_anew(self) -> None:
        """Forget an attempt by which nothing was called."""
        self.sent, self.fault, self.status, self.wait = False, None, None, None

    @property
    def session_lost(self) -> bool:
        """Whether the server said that it does not know the session any more."""
        return self.in_session and self.status == httpx2.codes.NOT_FOUND


CURRENT: Final[ContextVar[Exchange | None]] = ContextVar("turnstream_mcp_exchange", default=None)
"""The call that is being made; the SDK sends each request in the context of who asked for it, what
it asks for by itself in that of the connection."""


def _of_call(message: object) -> Exchange | None:
    """The exchange of a message, where it is a call or may be one; notes the arguments."""
    exchange = CURRENT.get()
    if exchange is None or message is None:
        return None
    if isinstance(message, dict) and message.get("method") != _CALL:
        return None
    params = message.get("params") if isinstance(message, dict) else None
    arguments = params.get("arguments", {}) if isinstance(params, dict) else None
    exchange.arguments = arguments if isinstance(arguments, dict) else NOT_OURS
    return exchange


# --- over HTTP ----------------------------------------------------------------------------------


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to allowed hosts, with secrets as they are now, and bounds the replies."""

    def __init__(
        self,
        *,
        egress: Egress,
        headers: Mapping[str, str],
        stands: Callable[[], Callable[[], None]],
    ) -> None:
        """Prepare.

        Args:
            egress: the allowed hosts.
            headers: header name to value or secret reference.
            stands: called when the stream for what the server says by itself is open; what it gives
                is called when that ends.
        """
        self._inner = httpx2.AsyncHTTPTransport(
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
        )
        self._egress = egress
        self._headers = headers
        self._stands = stands
        self._opened = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; a failure is a reply that says so."""
        message = _message(await request.aread())
        exchange = _of_call(message)
        if message is _UNREADABLE:
            return _withheld(request, exchange)
        until = _until(request, message)
        if request.method == "GET":
            if self._opened:
                await asyncio.sleep(_REOPEN_SECONDS)
            self._opened = True
        try:
            self._egress.check(str(request.url))
            self._fill(request)
        except BindingError:
            return _no_reply(request, exchange, "forbidden")
        except SecretUnavailable as error:
            if exchange is not None:
                exchange.secret = str(error)
            return _no_reply(request, exchange, "forbidden")
        timeout = dict(request.extensions.get("timeout") or {})
        timeout["read"] = None
        if until is not None:
            timeout["read"] = until - asyncio.get_running_loop().time()
            if timeout["read"] <= 0:
                return _no_reply(request, exchange, "silent")
        request.extensions = {**request.extensions, "timeout": timeout}
        if exchange is not None:
            exchange.in_session = "mcp-session-id" in request.headers
            request.extensions["trace"] = _traced(exchange)
        try:
            response = await self._inner.handle_async_request(request)
        except Unsent:
            return _no_reply(request, exchange, "unreachable")
        except httpx2.TransportError as error:
            return _no_reply(request, exchange, _fault(error))
        return await self._guarded(request, response, exchange, until)

    async def aclose(self) -> None:
        """Release connections."""
        await self._inner.aclose()

    def _fill(self, request: httpx2.Request) -> None:
        # A compressed reply could be small on the wire and large in memory.
        request.headers["Accept-Encoding"] = "identity"
        for name, value in self._headers.items():
            text = SecretRef(value).resolve() if is_reference(value) else value
            if not text.isascii() or not text.isprintable():
                # The client's own error would repeat the value, which may be a secret.
                raise SecretUnavailable(f"header {name} must be printable ASCII")
            request.headers[name] = text

    async def _guarded(
        self,
        request: httpx2.Request,
        response: httpx2.Response,
        exchange: Exchange | None,
        until: float | None,
    ) -> httpx2.Response:
        asking = CURRENT.get()
        if asking is not None:
            asking.wait = retry_after(response.headers)  # of the list of tools too
        if exchange is not None:
            exchange.status = response.status_code
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            await response.aclose()
            return _no_reply(request, exchange, "too_long")
        headers = [
            # What a server sets for one customer's call would go out with another's.
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() != "set-cookie"
        ]
        stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream), exchange, until)
        if until is None and request.method == "GET" and _opens(response):
            stream.ended = self._stands()
        return httpx2.Response(
            response.status_code,
            headers=headers,
            stream=stream,
            extensions=response.extensions,
            request=request,
        )


class _Bounded(httpx2.AsyncByteStream):
    """A reply that ends where it is longer than allowed, or takes longer, or its connection breaks.

    All are errors that the SDK takes for those of one reply. What is read without an end has no
    length either; the SDK bounds each event of it.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, exchange: Exchange | None, until: float | None
    ) -> None:
        self._inner = inner
        self._exchange = exchange
        self._until = until
        self.ended: Callable[[], None] = _nobody

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        chunks = aiter(self._inner)
        try:
            while True:
                async with asyncio.timeout_at(self._until):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                size += len(chunk)
                if self._until is not None and size > REPLY_BYTES:
                    self._note("too_long")
                    raise httpx2.StreamError(f"the reply is longer than {REPLY_BYTES} bytes")
                yield chunk
        except TimeoutError:
            self._note("silent")
            raise httpx2.StreamError("the reply did not end in time") from None
        except httpx2.TransportError as error:
            self._note(_fault(error))
            raise httpx2.StreamError("the connection broke") from None

    async def aclose(self) -> None:
        self.ended()
        await self._inner.aclose()

    def _note(self, fault: Fault) -> None:
        if self._exchange is not None:
            self._exchange.fault = fault


def _nobody() -> None:
    """Tell nobody that a stream has ended."""


def _until(request: httpx2.Request, message: object) -> float | None:
    """When the reply to a request is not read any more; None for a stream without an end."""
    exchange = CURRENT.get()
    if isinstance(message, dict) and message.get("method") == _LISTEN:
        return None
    if request.method == "GET":
        # The stream of the connection, or the rest of a reply that somebody waits for.
        return None if exchange is None else exchange.until
    if exchange is None or not isinstance(message, dict) or "id" not in message:
        # What tells a server that a call was given up is sent when its time is over.
        return asyncio.get_running_loop().time() + _OWN_SECONDS
    return exchange.until


def _opens(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("Content-Type", "")
    return response.status_code == httpx2.codes.OK and kind.lower().startswith(_EVENTS)


def _traced(exchange: Exchange) -> Callable[[str, Mapping[str, Any]], Any]:
    async def traced(event: str, _details: Mapping[str, Any]) -> None:
        # A connection may have been waited for since the call began.
        if event.endswith(_FIRST_BYTE):
            exchange.leaves()

    return traced


def _fault(error: httpx2.TransportError) -> Fault:
    if isinstance(error, _NEVER_SENT):
        return "unreachable"
    return "silent" if isinstance(error, httpx2.TimeoutException) else "broken"


def _message(body: bytes | str) -> object:
    """What a body says; None where there is none."""
    try:
        message = written(body) if body else None
    except ValueError:
        return _UNREADABLE
    # Several in one are not sent by the SDK, and one of them may be a call.
    return message if isinstance(message, dict | None) else _UNREADABLE


def _withheld(request: httpx2.Request, exchange: Exchange | None) -> httpx2.Response:
    """Keep back what not every reader understands alike: in place of a call it is another one."""
    if exchange is not None:
        with suppress(Unsent):
            exchange.leaves()
        exchange.sent = False
    return _no_reply(request, exchange, "forbidden")


def _no_reply(request: httpx2.Request, exchange: Exchange | None, fault: Fault) -> httpx2.Response:
    if exchange is not None:
        exchange.fault = fault
    return httpx2.Response(
        httpx2.codes.BAD_GATEWAY,
        headers={"Content-Type": "application/json"},
        content=_NO_REPLY,
        request=request,
    )


# --- over pipes ---------------------------------------------------------------------------------


@asynccontextmanager
async def announced(
    transport: AbstractAsyncContextManager["TransportStreams"],
) -> AsyncIterator["TransportStreams"]:
    """A transport whose calls say when they go out."""
    async with transport as (read, write):
        yield read, _Announcing(write)


class _Announcing:
    """The writing end of a transport."""

    def __init__(self, inner: "WriteStream[SessionMessage]") -> None:
        self._inner = inner

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        exchange = _of_call(_message(text))
        if exchange is not None:
            exchange.leaves()
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)
