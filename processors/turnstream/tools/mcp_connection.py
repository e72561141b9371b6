"""The connection to one MCP server: opened with the first call, shared by all its tools.

The SDK's connection lives in one task, which also ends it; here that is a task of the connection's
own. One that broke is given up and the next call opens another.

The server's list of tools is read before the first call, and again when the server says that it has
changed, when it says that it knows no such tool, or after `list_seconds`. Before a write it is read
again in any case, unless the server would have said by now that it has changed: one without
sessions can tell nobody.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Final

import httpx2
import orjson
import structlog
from mcp import Client, ListToolsResult, MCPError, StdioServerParameters
from mcp.client.session import IncomingMessage
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import Implementation, ToolListChangedNotification

import turnstream
from turnstream.config.secrets import SecretRef, SecretUnavailable, is_reference
from turnstream.core.schema_tree import Schema
from turnstream.core.servers import McpHttpServer, McpServer, McpStdioServer
from turnstream.tools.egress import Egress
from turnstream.tools.errors import MISCONFIGURED, UNAVAILABLE
from turnstream.tools.mcp_exchange import NO_REPLY, REPLY_BYTES, GuardedTransport, announced
from turnstream.tools.mcp_pipes import BOUNDED_UTF_8, STOP
from turnstream.tools.mcp_schemas import Listing, listing

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

log = structlog.get_logger(__name__)

# The SDK logs replies that it cannot parse, and with them what customers are told.
for _name in ("mcp", "httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_CONNECT_SECONDS: Final = 20.0
"""A server that never completes the handshake must not hold its connection's place for ever."""

_CLOSE_SECONDS: Final = 10.0
"""Longest wait at the end, above the six seconds that the SDK gives a process to stop."""

_PAGES: Final = 100
"""Pages of a list of tools that are read: one that never ends would fill the memory."""

_LIST_BYTES: Final = REPLY_BYTES
"""Longest list of tools, all its pages together: a hundred of the longest would fill it too."""

_US: Final = Implementation(name="turnstream", version=turnstream.__version__)


class Unreachable(Exception):
    """There is no connection to a server, or it was lost before anything was sent."""

    def __init__(self, message: str, *, code: str = UNAVAILABLE) -> None:
        super().__init__(message)
        self.code = code


class Live:
    """A connection while it lasts."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.why: Unreachable | None = None
        self.settled = asyncio.Event()
        """Set when there is a client, or none will be."""
        self.ended = asyncio.Event()
        """Set when it is not wanted any more."""
        self.listed: Listing | None = None
        self.stale = False
        self.standing = False
        """Whether what a server of the older protocol says by itself can arrive."""
        self.listing = asyncio.Lock()
        self.retired = False
        """No further call begins on it."""
        self._calls = 0
        self._subscribed = False

    @property
    def announces(self) -> bool:
        """Whether the server would say if its tools changed now."""
        if self._subscribed:
            return True
        if not self.standing or self.client is None:
            return False
        tools = self.client.server_capabilities.tools
        return tools is not None and bool(tools.list_changed)

    @contextlib.contextmanager
    def used(self) -> Iterator[Client]:
        """A call is under way on it."""
        if self.client is None:
            raise self.why or Unreachable("the connection is not open")
        self._calls += 1
        try:
            yield self.client
        finally:
            self._calls -= 1
            self._end()

    def retire(self) -> None:
        """Begin no further call on it, and end it when those under way have ended."""
        self.retired = True
        self._end()

    def _end(self) -> None:
        if self.retired and not self._calls:
            self.ended.set()

    async def heard(self, message: IncomingMessage) -> None:
        """Take notice of what the server says by itself."""
        if isinstance(message, ToolListChangedNotification):
            self.stale = True

    def stands(self) -> Callable[[], None]:
        """Take notice that what the server says by itself can arrive; to be called when it ends."""
        self.standing = self.stale = True  # what came before was told to nobody
        return self._falls

    def _falls(self) -> None:
        self.standing, self.stale = False, True

    async def listen(self, client: Client, *, piped: bool) -> None:
        """Ask a server of the newer protocol to say when its tools change, for as long as it does.

        One of the older says so without being asked: over a pipe, or over a stream that the
        transport knows of. Where neither does, its list is read again by age, and for writes.
        """
        with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError):
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    if not changes.honored.tools_list_changed:
                        return
                    # What came between the first reading and now was told to nobody.
                    self._subscribed = self.stale = True
                    async for _ in changes:
                        self.stale = True
            except ListenNotSupportedError:
                self.standing = self.standing or piped
            finally:
                if self._subscribed:
                    self._subscribed, self.stale = False, True


class McpConnection:
    """Opens and shares the connection to a server."""

    def __init__(self, name: str, server: McpServer, *, egress: Egress) -> None:
        """Prepare; nothing is opened.

        Args:
            name: the server's in the catalog.
            server: its definition, the base URL filled in.
            egress: the allowed hosts.

        Raises:
            BindingError: the server's host is not allowed.
        """
        if isinstance(server, McpHttpServer):
            egress.check(server.url)
        self._name = name
        self._server = server
        self._egress = egress
        self._live: Live | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def live(self) -> Live:
        """The connection, opened if there is none.

        Raises:
            Unreachable: it cannot be opened.
        """
        live = self._live
        if live is None or live.retired or live.ended.is_set():
            live = self._live = Live()
            # Of its own context: a call that opens it is not the only one that it serves.
            task = asyncio.create_task(self._keep(live), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await live.settled.wait()
        if live.why is not None:
            raise live.why
        return live

    async def listing(self, live: Live, *, anew: bool = False) -> Listing:
        """The server's tools as far as they are known to be current.

        Args:
            live: the connection.
            anew: as it is from now on; of several that ask at once, one reads it.

        Raises:
            Unreachable: the list cannot be read.
        """
        clock = asyncio.get_running_loop().time
        asked = clock()
        async with live.listing:
            found = live.listed
            now = clock()
            oldest = asked if anew else now - self._server.list_seconds
            if found is not None and not live.stale and found.read_at >= oldest:
                return found
            live.stale = False  # before it is asked: it may change meanwhile
            read: Listing | None = None
            try:
                read = listing(await self._schemas(live), read_at=now)
            except ValueError:
                raise Unreachable("the list of the server's tools breaks the protocol") from None
            except MCPError as error:
                if error.code != NO_REPLY:  # the session may be gone, or the process
                    live.retire()
                raise Unreachable("the server does not list its tools") from None
            finally:
                live.stale = live.stale or read is None
            if found is not None and found.version != read.version:
                log.warning(
                    "the tools of a server have changed",
                    server=self._name,
                    version=read.version,
                    before=found.version,
                )
            live.listed = read
            return read

    async def close(self) -> None:
        """End the connection and, with it, the server's process where it is ours."""
        if self._live is not None:
            self._live.ended.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()

    async def _schemas(self, live: Live) -> dict[str, Schema]:
        schemas: dict[str, Schema] = {}
        cursor: str | None = None
        size = 0
        with live.used() as client:
            for _ in range(_PAGES):
                page: ListToolsResult = await client.list_tools(cursor=cursor)
                for tool in page.tools:
                    size += len(tool.name) + len(orjson.dumps(tool.input_schema))
                    schemas[tool.name] = tool.input_schema
                cursor = page.next_cursor
                if cursor is None:
                    return schemas
                if size > _LIST_BYTES:
                    break
        # Half a list would say of the tools of the other half that they are gone.
        raise Unreachable("the list of the server's tools is too long")

    async def _keep(self, live: Live) -> None:
        """Open the connection, hold it until it is given up, and close it."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    client = await stack.enter_async_context(
                        Client(
                            self._transport(live),
                            client_info=_US,
                            message_handler=live.heard,
                            cache=None,
                        )
                    )
                live.client = client
                live.settled.set()
                piped = isinstance(self._server, McpStdioServer)
                listening = asyncio.create_task(live.listen(client, piped=piped))
                try:
                    await live.ended.wait()
                finally:
                    listening.cancel()
                    await asyncio.gather(listening, return_exceptions=True)
        except SecretUnavailable as error:
            live.why = Unreachable(str(error), code=MISCONFIGURED)
        except Exception as error:  # noqa: BLE001 - the server and the SDK may fail in any way
            kind = type(error).__name__
            live.why = Unreachable(f"no connection to the server ({kind})")
            log.warning("no connection to a server", server=self._name, error=kind)
        finally:
            live.why = live.why or Unreachable("the connection was closed")
            live.ended.set()
            live.settled.set()

    @asynccontextmanager
    async def _transport(self, live: Live) -> AsyncIterator["TransportStreams"]:
        if isinstance(self._server, McpStdioServer):
            STOP.set(live.ended.set)
            with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123
                # What it writes to its standard error may be of customers; ours is a log.
                opened = stdio_client(_process(self._server), errlog=nowhere)
                async with announced(opened) as streams:
                    yield streams
            return
        guarded = GuardedTransport(
            egress=self._egress, headers=self._server.headers, stands=live.stands
        )
        async with (
            httpx2.AsyncClient(transport=guarded, trust_env=False, timeout=_CONNECT_SECONDS) as web,
            streamable_http_client(
                self._server.url, http_client=web, max_sse_event_size=REPLY_BYTES
            ) as streams,
        ):
            yield streams


def _process(server: McpStdioServer) -> StdioServerParameters:
    """How a server is started.

    Raises:
        SecretUnavailable: a secret of its environment cannot be read.
    """
    return StdioServerParameters(
        command=server.command,
        args=list(server.args),
        encoding=BOUNDED_UTF_8,
        env={
            name: SecretRef(value).resolve() if is_reference(value) else value
            for name, value in server.env.items()
        },
    )
