"""MCP servers of the official SDK for tests: in this process, over real sockets."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server import Server
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class _Quiet(uvicorn.Server):
    """A server that leaves the signals of its process alone."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Front:
    """What stands before the server: breaks connections, and knows older protocols only.

    Args:
        app: the server.
        sessions: as a server from before 2026, which gives its clients a session.
    """

    def __init__(self, app: ASGIApp, *, sessions: bool = False) -> None:
        self.app = app
        self.sessions = sessions
        self.methods: list[str] = []
        """The methods asked for, in order; of a request without one, ``GET``."""
        self.headers: list[dict[str, str]] = []
        """Those of each request."""
        self.replies: dict[str, tuple[int, dict[str, str], bytes]] = {}
        """Method to what is replied instead of the server's own."""
        self.instead: dict[str, ASGIApp] = {}
        """Method, or ``GET``, to who replies instead of the server."""
        self.then: dict[str, Callable[[], None]] = {}
        """Method to what happens when it has been replied to."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "POST":
            asked = scope.get("method", "")
            if asked == "GET":
                self._note(asked, scope)
            await self.instead.get(asked, self.app)(scope, receive, send)
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        method = json.loads(body).get("method", "")
        self._note(method, scope)
        if method in self.replies:
            status, headers, content = self.replies[method]
            await _reply(send, status, content, headers)
            return
        if method in self.instead:
            await self.instead[method](scope, receive, send)
            return
        if method == "server/discover" and self.sessions:
            await _reply(send, 404, b"", {})
            return

        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        if method == "tools/call" and "broken" in body.decode():
            await self.app(scope, again, _nowhere)
            head = [(b"content-type", b"application/json"), (b"content-length", b"100")]
            # Without the body that it promises.
            await send({"type": "http.response.start", "status": 200, "headers": head})
            return
        await self.app(scope, again, send)
        self.then.get(method, _nothing)()

    def _note(self, method: str, scope: Scope) -> None:
        self.methods.append(method)
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})


def _nothing() -> None:
    """Happen."""


async def _nowhere(_: Message) -> None:
    """Reach nobody."""


async def _reply(send: Send, status: int, content: bytes, headers: dict[str, str]) -> None:
    named = {"content-type": "application/json", **headers}
    pairs = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def serving(app: Any, *, port: int = 0) -> AsyncIterator[str]:
    """An ASGI application on 127.0.0.1; its base URL."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", lifespan="auto", timeout_graceful_shutdown=1)
    server = _Quiet(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        while not server.started:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        await running
        listening.close()


@asynccontextmanager
async def mcp_serving(
    server: Server[Any], *, sessions: bool = False, stateless: bool = False, port: int = 0
) -> AsyncIterator[tuple[str, Front]]:
    """A server over streamable HTTP; the URL of its endpoint and what stands before it."""
    app = server.streamable_http_app(stateless_http=stateless)
    front = Front(app, sessions=sessions or stateless)
    async with serving(front, port=port) as url:
        yield f"{url}/mcp", front
