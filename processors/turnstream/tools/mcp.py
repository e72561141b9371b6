"""Tools of MCP servers, called with ``tools/call``.

Before each call the input schema that the server lists for the tool is compared with the catalog's:
a call in a form that the server does not expect any more is not made (`schema_changed`), and its
conversation goes to a person until catalog and server agree again. For a read the list may be as
old as the catalog allows, since the worst is an error; for a write it is read anew, unless the
server is one that says when it changes.

The idempotency key travels in the request's ``_meta``, and so does the ``traceparent``. The result
is the structured content of the reply; without any, its first text that is a JSON object. A tool's
own error says its code as ``{"error": {"code": ...}}`` in one of them. What an error without a code
means for a write is not known, and neither is what a connection that broke means.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, cast

import orjson
from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallToolResult,
    RequestParamsMeta,
    TextContent,
)
from pydantic import JsonValue

from turnstream.core.bindings import McpBinding
from turnstream.core.carried import hash_of
from turnstream.core.definitions import Tool
from turnstream.core.ports import Reconciliation, ToolCall, ToolReply
from turnstream.core.schema_tree import Schema
from turnstream.tools.errors import (
    INVALID_RESULT,
    MISCONFIGURED,
    SCHEMA_CHANGED,
    TIMEOUT,
    TOOL_ERROR,
    UNAVAILABLE,
    Unsent,
    failed,
    refused,
)
from turnstream.tools.mcp_connection import Live, McpConnection, Unreachable
from turnstream.tools.mcp_exchange import CURRENT, Exchange, Fault
from turnstream.tools.mcp_schemas import difference
from turnstream.tools.results import RESULT_BYTES, InvalidResult, ResultSchema
from turnstream.tools.statuses import SENT_ELSEWHERE, TRY_LATER, refused_unbegun

IDEMPOTENCY_META: Final = "turnstream/idempotency_key"
TRACEPARENT_META: Final = "traceparent"
USED_META: Final = "turnstream/used_sha256"
"""A server may say here, in the ``_meta`` of its reply, what it used: the SHA-256 of the object, 64
hex digits."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEY_ARGUMENT: Final = "idempotency_key"
_REFUSED: Final = frozenset({INVALID_PARAMS, METHOD_NOT_FOUND})
"""By these a server says that it called nothing: it knows no such tool, or not these arguments."""
_UNKNOWN: Final = Reconciliation("unknown")


class McpTool:
    """Calls one tool of an MCP server."""

    def __init__(
        self, name: str, *, tool: Tool, binding: McpBinding, connection: McpConnection
    ) -> None:
        """Bind a tool.

        Args:
            name: the tool's name.
            tool: its definition.
            binding: its binding.
            connection: to its server.
        """
        self._remote = binding.tool or name
        self._tool = tool
        self._binding = binding
        self._connection = connection
        self._results = ResultSchema(tool.result_schema)

    async def call(self, call: ToolCall) -> ToolReply:
        """Make one call, within the tool's time-out."""
        write = self._tool.effect == "write"
        exchange = self._exchange(call.sending)
        try:
            async with _timed(exchange):
                reply = await self._called(call, exchange)
        except Unsent as unsent:
            raise unsent.why from None
        except TimeoutError:
            reply = failed(
                TIMEOUT,
                f"no reply within {self._tool.timeout_seconds:g} s",
                retryable=True,
                outcome_unknown=write and exchange.sent,
            )
        carried = exchange.arguments
        return replace(reply, body_hash=None if carried is None else hash_of(carried))

    @property
    def reconciles(self) -> bool:
        """Whether the binding says how."""
        return self._binding.reconcile is not None

    async def reconcile(self, call: ToolCall) -> Reconciliation:
        """Ask the server what became of a call, within the tool's time-out."""
        rule = self._binding.reconcile
        if rule is None:
            return _UNKNOWN
        exchange = self._exchange(_unwatched)
        try:
            async with _timed(exchange):
                live = await self._connection.live()
                listed = await self._connection.listing(live)
                taken = listed.schemas.get(rule.tool, {}).get("properties")
                given: dict[str, JsonValue] = {
                    **call.arguments,
                    _KEY_ARGUMENT: call.idempotency_key,
                }
                arguments = {
                    name: value
                    for name, value in given.items()
                    if isinstance(taken, dict) and name in taken
                }
                told = await self._exchanged(live, rule.tool, arguments, call)
        except (TimeoutError, Unreachable):
            return replace(_UNKNOWN, retryable=True)
        except MCPError as error:
            closed = error.code == CONNECTION_CLOSED
            if closed:
                live.retire()
            again = closed or exchange.fault in ("unreachable", "broken", "silent")
            return replace(_UNKNOWN, retryable=again)
        except (RuntimeError, ValueError):
            return _UNKNOWN
        if told.is_error:
            not_found = _error_code(told) == rule.not_found_code
            return Reconciliation("not_found") if not_found else _UNKNOWN
        reply = self._result(told)
        return _UNKNOWN if reply.error_code is not None else Reconciliation("found", reply)

    async def close(self) -> None:
        """End the connection; that of the server's other tools too, they share it."""
        await self._connection.close()

    async def changed(self) -> str | None:
        """How the server's tool differs from the catalog's; None where it does not.

        Raises:
            Unreachable: the server's list cannot be read.
        """
        try:
            async with _timed(self._exchange(_unwatched)):
                return await self._apart(await self._connection.live())
        except TimeoutError:
            seconds = self._tool.timeout_seconds
            raise Unreachable(f"no list of its tools within {seconds:g} s") from None

    # --- the call -------------------------------------------------------------------------------

    def _exchange(self, sending: Callable[[Mapping[str, JsonValue]], None]) -> Exchange:
        now = asyncio.get_running_loop().time()
        return Exchange(sending, until=now + self._tool.timeout_seconds)

    async def _called(self, call: ToolCall, exchange: Exchange) -> ToolReply:
        write = self._tool.effect == "write"
        again = True
        while True:
            live: Live | None = None
            try:
                live = await self._connection.live()
                apart = await self._apart(live, anew=write and not live.announces)
            except Unreachable as error:
                if again and live is not None and live.retired:
                    again = False
                    continue
                return failed(
                    error.code,
                    str(error),
                    retryable=error.code == UNAVAILABLE,
                    retry_after_seconds=exchange.wait,
                )
            if apart is not None:
                return failed(SCHEMA_CHANGED, apart)
            try:
                told = await self._exchanged(live, self._remote, call.arguments, call)
            except MCPError as error:
                if exchange.refused is not None:
                    raise exchange.refused from None
                gone = exchange.session_lost or error.code == CONNECTION_CLOSED
                if gone:
                    live.retire()
                if again and (exchange.session_lost or (gone and not exchange.sent)):
                    # A server that was restarted has called nothing; it is greeted anew, once.
                    again = False
                    exchange.begin_anew()
                    continue
                return await self._failure(live, error, exchange)
            except (RuntimeError, ValueError):
                # The SDK holds the reply to the protocol and to the server's own output schema.
                return failed(
                    INVALID_RESULT,
                    "the reply is no result of MCP, or breaks the schema that the server gave",
                    outcome_unknown=write,
                )
            return await self._told(live, told)

    async def _exchanged(
        self,
        live: Live,
        remote: str,
        arguments: Mapping[str, JsonValue],
        call: ToolCall,
    ) -> CallToolResult:
        meta: dict[str, str] = {IDEMPOTENCY_META: call.idempotency_key}
        if call.traceparent is not None:
            meta[TRACEPARENT_META] = call.traceparent
        if self._binding.subject_meta is not None and call.subject_id is not None:
            meta[self._binding.subject_meta] = call.subject_id
        with live.used() as client:
            # Not the client's own: it would call again by a schema that it has just read.
            return await client.session.call_tool(
                remote,
                dict(arguments),
                meta=cast("RequestParamsMeta", meta),
            )

    async def _apart(self, live: Live, *, anew: bool = False) -> str | None:
        """In our words, how the tool differs on the server."""
        listed = await self._connection.listing(live, anew=anew)
        theirs: Schema | None = listed.schemas.get(self._remote)
        if theirs is None:
            return f"the server lists no such tool (list {listed.version})"
        place = difference(self._tool.input_schema, theirs)
        if place is None:
            return None
        return f"input_schema differs from the server's at {place} (list {listed.version})"

    # --- the reply ------------------------------------------------------------------------------

    async def _told(self, live: Live, told: CallToolResult) -> ToolReply:
        if not told.is_error:
            return self._result(told)
        code = _error_code(told)
        if code:
            return refused(self._tool, code, otherwise="the tool refused the call")
        return await self._unlisted(
            live,
            failed(
                TOOL_ERROR,
                "the tool failed without a code",
                outcome_unknown=self._tool.effect == "write",
            ),
        )

    async def _unlisted(self, live: Live, otherwise: ToolReply) -> ToolReply:
        """The reply where the server may have meant that it knows no such tool or arguments."""
        try:
            apart = await self._apart(live, anew=True)
        except Unreachable:
            return otherwise
        if apart is None:
            return otherwise
        # An error without a code says nothing of an effect, whatever the list says afterwards.
        return failed(SCHEMA_CHANGED, apart, outcome_unknown=otherwise.outcome_unknown)

    def _result(self, told: CallToolResult) -> ToolReply:
        write = self._tool.effect == "write"
        document: bytes | None = None
        try:
            document = _document(told)
            if len(document) > RESULT_BYTES:
                raise InvalidResult(f"the result is longer than {RESULT_BYTES} bytes of JSON")
            result = self._results.read(document)
        except InvalidResult as error:
            reply = failed(INVALID_RESULT, str(error), outcome_unknown=write)
            return replace(reply, raw=document)
        used = (told.meta or {}).get(USED_META)
        known = isinstance(used, str) and _SHA256.fullmatch(used)
        return ToolReply(result=result, used_hash=str(used) if known else None)

    async def _failure(self, live: Live, error: MCPError, exchange: Exchange) -> ToolReply:
        """What an exchange without a result means."""
        write = self._tool.effect == "write"
        if exchange.secret is not None:
            return failed(MISCONFIGURED, exchange.secret)
        if exchange.fault is not None:
            return _no_reply(exchange.fault, sent=exchange.sent, write=write)
        if error.code in _REFUSED:
            return await self._unlisted(live, failed(TOOL_ERROR, f"refused, error {error.code}"))
        if error.code == HEADER_MISMATCH:
            # The SDK writes headers by the list that it read last; nothing was called.
            stale = failed(UNAVAILABLE, "the server expects other headers", retryable=True)
            return await self._unlisted(live, stale)
        status, wait = exchange.status or 200, exchange.wait
        if status in TRY_LATER or status >= 500:  # noqa: PLR2004 - HTTP's own classes
            return failed(
                UNAVAILABLE,
                f"status {status}",
                retryable=True,
                outcome_unknown=write and not refused_unbegun(status),
                retry_after_seconds=wait,
            )
        if status >= 400:  # noqa: PLR2004
            return failed(TOOL_ERROR, f"refused, status {status}")
        if status >= 300:  # noqa: PLR2004
            return failed(
                TOOL_ERROR,
                f"status {status}; redirects to other hosts are not followed",
                outcome_unknown=write and status not in SENT_ELSEWHERE,
            )
        return failed(
            UNAVAILABLE,
            f"the server gave no result, error {error.code}",
            retryable=True,
            outcome_unknown=write and exchange.sent,
        )


@asynccontextmanager
async def _timed(exchange: Exchange) -> AsyncIterator[None]:
    """The time that a call has, and what is asked for its sake."""
    token = CURRENT.set(exchange)
    try:
        async with asyncio.timeout_at(exchange.until):
            yield
    finally:
        CURRENT.reset(token)


def _unwatched(_arguments: Mapping[str, JsonValue]) -> None:
    """Let the question go out."""


def _no_reply(fault: Fault, *, sent: bool, write: bool) -> ToolReply:
    if fault == "forbidden":
        return failed(TOOL_ERROR, "the host is not allowed")
    if fault == "too_long":
        message = "the reply is compressed or too long"
        return failed(INVALID_RESULT, message, outcome_unknown=write)
    code, message = UNAVAILABLE, "the connection broke"
    if fault == "silent":
        code, message = TIMEOUT, "the server was silent for too long"
    if fault == "unreachable":
        message = "no connection"
    return failed(code, message, retryable=True, outcome_unknown=write and sent)


def _document(told: CallToolResult) -> bytes:
    """The result as JSON.

    Raises:
        InvalidResult: the reply has none.
    """
    if told.structured_content is not None:
        try:
            return orjson.dumps(told.structured_content)
        except TypeError:
            # Holds what nobody down the line can; what becomes of it depends on where it stands.
            return json.dumps(told.structured_content).encode()
    for block in told.content:
        if isinstance(block, TextContent):
            text = block.text.encode(errors="replace")
            if len(text) <= RESULT_BYTES and text.lstrip()[:1] == b"{":
                return text
    raise InvalidResult("the reply has neither structured content nor a text that is JSON")


def _error_code(told: CallToolResult) -> str:
    """The code of ``{"error": {"code": ...}}``; empty for any other reply."""
    try:
        document = orjson.loads(_document(told))
    except (InvalidResult, orjson.JSONDecodeError):
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""
