"""Tools behind HTTP.

Where arguments go is :mod:`turnstream.tools.http_places`. A 2xx reply holds the result. A 4xx
reply may hold ``{"error": {"code": ...}}``: a code that the catalog lists is a business error.
Redirects are never followed: they would carry the customer's data and our secrets to a host that
nobody allowed. What was said of a write by anybody but the service itself - a proxy on the way, say
- leaves its outcome unknown wherever the request may have been carried out.

What a request carries is read from the target and the body that the transport is about to write,
after every hook, so a call that something on the way has changed never leaves.

The idempotency key travels as the `Idempotency-Key` header; to an idempotent write a 409 without a
code of the catalog means that the first request with the key is still at work. A service that is
asked what became of a call must tell `not there` apart from `no such page`: a bare 404 leaves the
outcome unknown.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast

import httpx
import orjson
from pydantic import JsonValue

from turnstream.config.secrets import SecretRef, SecretUnavailable, is_reference
from turnstream.core.bindings import HttpBinding, HttpReconcile
from turnstream.core.carried import hash_of
from turnstream.core.definitions import Tool
from turnstream.core.ports import Reconciliation, ToolCall, ToolReply
from turnstream.plain_http import read_up_to, retry_after
from turnstream.tools.egress import Egress
from turnstream.tools.errors import (
    INVALID_ARGUMENT,
    INVALID_RESULT,
    MISCONFIGURED,
    TIMEOUT,
    TOOL_ERROR,
    UNAVAILABLE,
    BindingError,
    Unsent,
    announce,
    failed,
    is_declared,
    refused,
)
from turnstream.tools.http_places import Places, UnsendableError, filled
from turnstream.tools.results import RESULT_BYTES, InvalidResult, ResultSchema, shown
from turnstream.tools.statuses import SENT_ELSEWHERE, TRY_LATER, refused_unbegun

if TYPE_CHECKING:
    import httpcore

IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
USED_HEADER: Final = "X-Used-SHA256"
"""A service may say here what it used, as the SHA-256 of the call's arguments or of the body as it
came, 64 hex digits."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_KEY_ARGUMENT: Final = "idempotency_key"
_UNKNOWN: Final = Reconciliation("unknown")
_FIRST_BYTE: Final = "send_request_headers.started"
"""The end of the transport's name for the moment before a request's first byte."""

_NEVER_SENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
)
"""Failures before the first byte: the call had no effect for certain."""


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    body: bytes | None


class HttpTool:
    """Calls one tool over HTTP."""

    def __init__(
        self,
        name: str,
        *,
        tool: Tool,
        binding: HttpBinding,
        client: httpx.AsyncClient,
        egress: Egress,
    ) -> None:
        """Bind a tool.

        Args:
            name: the tool's name.
            tool: its definition.
            binding: its binding, the base URL filled in.
            client: the shared client.
            egress: the allowed hosts.

        Raises:
            BindingError: the binding's host is not allowed.
        """
        egress.check(binding.url)
        self._name = name
        self._tool = tool
        self._binding = binding
        self._client = client
        self._egress = egress
        self._results = ResultSchema(tool.result_schema)
        self._secrets = {
            header: SecretRef(value)
            for header, value in binding.headers.items()
            if is_reference(value)
        }
        if binding.reconcile is not None:
            egress.check(binding.reconcile.url)
        self._places = Places(binding.url, method=binding.method)

    async def call(self, call: ToolCall) -> ToolReply:
        """Make one call, within the tool's time-out."""
        write = self._tool.effect == "write"
        try:
            request = self._checked(
                _Request(self._binding.method, *self._places.put(call.arguments))
            )
            headers = self._headers(call, request)
        except UnsendableError as error:
            return failed(error.code, str(error))
        departure = _Departure(self._places, call)
        try:
            async with asyncio.timeout(self._tool.timeout_seconds):
                response, body = await self._exchange(request, headers, departure)
            reply = self._reply(response, body, departure)
        except Unsent as unsent:
            raise unsent.why from None
        except _NEVER_SENT as error:
            reply = failed(UNAVAILABLE, f"no connection ({type(error).__name__})", retryable=True)
        except (TimeoutError, httpx.TimeoutException):
            reply = failed(
                TIMEOUT,
                f"no reply within {self._tool.timeout_seconds:g} s",
                retryable=True,
                outcome_unknown=write,
            )
        except httpx.HTTPError as error:
            reply = failed(
                UNAVAILABLE,
                f"the connection broke ({type(error).__name__})",
                retryable=True,
                outcome_unknown=write,
            )
        return replace(reply, body_hash=departure.hash)

    @property
    def reconciles(self) -> bool:
        """Whether the binding says how."""
        return self._binding.reconcile is not None

    async def reconcile(self, call: ToolCall) -> Reconciliation:
        """Ask the service what became of a call, within the tool's time-out."""
        rule = self._binding.reconcile
        if rule is None:
            return _UNKNOWN
        try:
            request = self._question(rule, call)
            headers = self._headers(call, request)
            async with asyncio.timeout(self._tool.timeout_seconds):
                response, body = await self._exchange(request, headers)
        except UnsendableError:
            return _UNKNOWN
        except (TimeoutError, httpx.HTTPError):
            return replace(_UNKNOWN, retryable=True)
        if response.is_success and body is not None:
            try:
                result = self._results.read(body, path=rule.result_path)
            except InvalidResult:
                return _UNKNOWN
            return Reconciliation("found", ToolReply(result=result))
        if response.status_code == HTTPStatus.NOT_FOUND and _error_code(body) == (
            rule.not_found_code
        ):
            return Reconciliation("not_found")
        again = response.is_server_error or response.status_code in TRY_LATER
        return replace(_UNKNOWN, retryable=again)

    async def close(self) -> None:
        """Release connections; those of the other HTTP tools too, they share them."""
        await self._client.aclose()

    # --- the request ----------------------------------------------------------------------------

    def _question(self, rule: HttpReconcile, call: ToolCall) -> _Request:
        """The request that asks what became of a call."""
        url = filled(rule.url, {**call.arguments, _KEY_ARGUMENT: call.idempotency_key})
        body = (
            orjson.dumps({_KEY_ARGUMENT: call.idempotency_key}) if rule.method == "POST" else None
        )
        return self._checked(_Request(rule.method, url, body))

    def _checked(self, request: _Request) -> _Request:
        try:
            # Arguments cannot reach the host; should one ever do, the call ends here.
            self._egress.check(request.url)
            httpx.URL(request.url)
        except (BindingError, httpx.InvalidURL):
            raise UnsendableError("the arguments do not fit into the URL") from None
        return request

    def _headers(self, call: ToolCall, request: _Request) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            # A compressed reply could be small on the wire and large in memory.
            "Accept-Encoding": "identity",
            IDEMPOTENCY_HEADER: call.idempotency_key,
        }
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        headers.update(self._binding.headers)
        for name, secret in self._secrets.items():
            try:
                headers[name] = secret.resolve()
            except SecretUnavailable as error:
                raise UnsendableError(str(error), code=MISCONFIGURED) from None
        if self._binding.subject_header is not None and call.subject_id is not None:
            headers[self._binding.subject_header] = call.subject_id
        for name, value in headers.items():
            # The client's own error would repeat the value, which may be a secret.
            if not value.isascii() or _CONTROL.search(value):
                code = MISCONFIGURED if name in self._secrets else INVALID_ARGUMENT
                raise UnsendableError(f"header {name} must be printable ASCII", code=code)
        return headers

    # --- the reply ------------------------------------------------------------------------------

    async def _exchange(
        self,
        request: _Request,
        headers: Mapping[str, str],
        departure: "_Departure | None" = None,
    ) -> tuple[httpx.Response, bytes | None]:
        async def traced(event: str, details: Mapping[str, object]) -> None:
            # A connection may have been waited for since the call began.
            if departure is not None and event.endswith(_FIRST_BYTE):
                written = cast("httpcore.Request", details["request"])
                departure.note(written.url.target, written.stream)
                announce(departure.call.sending, departure.carried)

        built = self._client.build_request(
            request.method,
            request.url,
            headers=headers,
            content=request.body,
            timeout=self._tool.timeout_seconds,
            extensions={"trace": traced},
        )
        try:
            response = await self._client.send(built, stream=True)
            try:
                return response, await read_up_to(response, RESULT_BYTES)
            finally:
                await response.aclose()
        finally:
            if departure is not None and not departure.noted:
                # A transport that says nothing: the request is as the hooks have left it.
                departure.note(built.url.raw_path, built.stream)

    def _reply(
        self, response: httpx.Response, body: bytes | None, departure: "_Departure"
    ) -> ToolReply:
        write = self._tool.effect == "write"
        status = response.status_code
        wait = retry_after(response.headers)
        if response.is_success:
            if body is None:
                message = f"the reply is compressed or longer than {RESULT_BYTES} bytes"
                return failed(INVALID_RESULT, message, outcome_unknown=write)
            try:
                result = self._results.read(body, path=self._binding.result_path)
                used = shown(body, path=self._binding.used_path)
            except InvalidResult as error:
                reply = failed(INVALID_RESULT, str(error), outcome_unknown=write)
                return replace(reply, raw=body)
            if used is not None:
                return ToolReply(result=result, used_hash=hash_of(used), used=used)
            told = response.headers.get(USED_HEADER, "").lower()
            return ToolReply(result=result, used_hash=departure.as_one(told))
        if status in TRY_LATER or response.is_server_error:
            return failed(
                UNAVAILABLE,
                f"status {status}",
                retryable=True,
                outcome_unknown=write and not refused_unbegun(status),
                retry_after_seconds=wait,
            )
        code = _error_code(body)
        repeated = write and self._tool.idempotent
        if repeated and status == HTTPStatus.CONFLICT and not is_declared(self._tool, code):
            # What a service says while an earlier request with the key is still at work.
            return failed(
                TOOL_ERROR,
                f"refused, status {status}",
                retryable=True,
                outcome_unknown=True,
                retry_after_seconds=wait,
            )
        if response.is_client_error:
            return refused(self._tool, code, otherwise=f"refused, status {status}")
        return failed(
            TOOL_ERROR,
            f"status {status}; redirects are not followed",
            outcome_unknown=write and status not in SENT_ELSEWHERE,
        )


class _Departure:
    """What a call carries when it leaves."""

    def __init__(self, places: Places, call: ToolCall) -> None:
        self.call = call
        self.carried: Mapping[str, JsonValue] = {}
        self.noted = False
        self._places = places
        self._body = b""

    def note(self, target: bytes, stream: object) -> None:
        """Read a request as it is about to be written."""
        # Ours are bytes, which can be read twice. Any other body has been put in its place.
        self._body = b"".join(stream) if isinstance(stream, httpx.ByteStream) else b"?"
        self.carried = self._places.read(target, self._body, like=self.call.arguments)
        self.noted = True

    @property
    def hash(self) -> str | None:
        return hash_of(self.carried) if self.noted else None

    def as_one(self, told: str) -> str | None:
        """What a service says that it used, in the one form; None where it says nothing."""
        if not _SHA256.fullmatch(told):
            return None
        of_body = self._body and hashlib.sha256(self._body).hexdigest() == told
        return self.hash if of_body else told


def _error_code(body: bytes | None) -> str:
    """The code of ``{"error": {"code": ...}}``; empty for any other body."""
    try:
        document = orjson.loads(body or b"")
    except orjson.JSONDecodeError:
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""
