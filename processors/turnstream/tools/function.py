"""Tools that are Python functions.

A function gets the arguments by name, and ``idempotency_key`` and ``subject_id`` if it has
parameters of these names. It returns the result, or raises :class:`~turnstream.tools.ToolFailure`
with one of the tool's error codes. A second function may say what became of a call: it returns the
result, or raises :class:`~turnstream.tools.NotExecuted`.

An ordinary function runs in a thread of its own; its time-out ends the wait, not the thread. The
threads are daemons: one that hangs does not keep the process from ending, as the threads of an
executor would.

What a call carries, and what is used, are the arguments as the function's parameters get them.
"""

import asyncio
import contextlib
import copy
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any, Final

import orjson
from pydantic import JsonValue

from turnstream.core.bindings import FunctionBinding
from turnstream.core.carried import hash_of
from turnstream.core.definitions import Tool
from turnstream.core.ports import Reconciliation, ToolCall, ToolReply
from turnstream.tools.errors import (
    INVALID_RESULT,
    TIMEOUT,
    TOOL_ERROR,
    UNAVAILABLE,
    BindingError,
    NotExecuted,
    ToolFailure,
    Unsent,
    announce,
    failed,
    refused,
)
from turnstream.tools.results import RESULT_BYTES, InvalidResult, ResultSchema

_OURS: Final = frozenset({"idempotency_key", "subject_id"})
"""Parameters that are filled by us, if a function has them."""

_THREADS: Final = 32
"""Threads per tool: functions that hang must not use up the threads of every other tool."""


class FunctionTool:
    """Calls one tool that is a function of this process."""

    def __init__(self, name: str, *, tool: Tool, binding: FunctionBinding) -> None:
        """Bind a tool.

        Args:
            name: the tool's name.
            tool: its definition.
            binding: where the function is.

        Raises:
            BindingError: the target cannot be imported, or not be called with the tool's arguments.
        """
        self._tool = tool
        self._function = _imported(f"tools.{name}.binding.target", binding.target)
        self._signature = signature = _signature(self._function)
        self._accepts = _accepted(signature)
        if signature is not None:
            _check_arguments(name, tool, binding.target, signature, self._accepts)
        repeated = tool.effect == "write" and tool.idempotent
        if repeated and "idempotency_key" not in self._accepts:
            raise BindingError(
                f"tools.{name}.idempotent: {binding.target!r} has no parameter idempotency_key, so "
                "it cannot know a second call for the first; add it, or say idempotent: false"
            )
        self._reconciler: Callable[..., Any] | None = None
        if binding.reconcile is not None:
            place = f"tools.{name}.binding.reconcile"
            self._reconciler = _imported(place, binding.reconcile)
            self._reconciler_accepts = _accepted(_signature(self._reconciler))
            if "idempotency_key" not in self._reconciler_accepts:
                raise BindingError(
                    f"{place}: {binding.reconcile!r} must have a parameter idempotency_key"
                )
        self._results = ResultSchema(tool.result_schema)
        self._name = name
        self._threads = asyncio.Semaphore(_THREADS)

    async def call(self, call: ToolCall) -> ToolReply:
        """Make one call, within the tool's time-out."""
        write = self._tool.effect == "write"
        ours = {name: value for name, value in _ours(call).items() if name in self._accepts}
        work = partial(self._function, **call.arguments, **ours)
        body_hash = hash_of(self._bound(work))
        try:
            async with asyncio.timeout(self._tool.timeout_seconds):
                returned = await self._run(work, call.sending)
        except ToolFailure as failure:
            message = "the function refused the call"
            return refused(self._tool, failure.code, otherwise=message, body_hash=body_hash)
        except TimeoutError:
            return failed(
                TIMEOUT,
                f"no reply within {self._tool.timeout_seconds:g} s",
                retryable=True,
                outcome_unknown=write,
                body_hash=body_hash,
            )
        except ConnectionError as error:
            return failed(
                UNAVAILABLE,
                f"the function raised {type(error).__name__}",
                retryable=True,
                outcome_unknown=write,
                body_hash=body_hash,
            )
        except Unsent as unsent:
            raise unsent.why from None
        except Exception as error:  # noqa: BLE001 - the function is the other side of this port
            return failed(
                TOOL_ERROR,
                f"the function raised {type(error).__name__}",
                outcome_unknown=write,
                body_hash=body_hash,
            )
        return self._reply(returned, body_hash)

    @property
    def reconciles(self) -> bool:
        """Whether the binding names a function for it."""
        return self._reconciler is not None

    async def reconcile(self, call: ToolCall) -> Reconciliation:
        """Ask the second function what became of a call, within the tool's time-out."""
        if self._reconciler is None:
            return Reconciliation("unknown")
        # The function may change what it gets, and may be asked again.
        given = {**copy.deepcopy(dict(call.arguments)), **_ours(call)}
        accepted = {name: given[name] for name in self._reconciler_accepts if name in given}
        try:
            async with asyncio.timeout(self._tool.timeout_seconds):
                returned = await self._run(partial(self._reconciler, **accepted))
        except NotExecuted:
            return Reconciliation("not_found")
        except (TimeoutError, ConnectionError):
            return Reconciliation("unknown", retryable=True)
        except Exception:  # noqa: BLE001 - the function is the other side of this port
            return Reconciliation("unknown")
        reply = self._reply(returned, None)
        if reply.error_code is not None:
            return Reconciliation("unknown")
        return Reconciliation("found", reply)

    async def close(self) -> None:
        """Do nothing: threads that still run are not waited for."""

    def _bound(self, work: partial[Any]) -> dict[str, JsonValue]:
        """The arguments as the function's parameters get them, without what is ours."""
        given: dict[str, Any] = dict(work.keywords)
        if self._signature is not None and work.func is self._function:
            # Arguments that the function does not take are the function's to complain of.
            with contextlib.suppress(TypeError):
                given = dict(self._signature.bind(*work.args, **work.keywords).arguments)
                for parameter in self._signature.parameters.values():
                    if parameter.kind is parameter.VAR_KEYWORD:
                        # An argument among them may have the parameter's own name.
                        given |= given.pop(parameter.name, {})
        ours = _OURS & self._accepts
        return {name: value for name, value in given.items() if name not in ours}

    async def _run(
        self,
        work: partial[Any],
        sending: Callable[[Mapping[str, JsonValue]], None] | None = None,
    ) -> Any:
        if inspect.iscoroutinefunction(work.func):
            announce(sending, self._bound(work))
            return await work()
        await self._threads.acquire()
        try:
            announce(sending, self._bound(work))
        except Unsent:
            self._threads.release()
            raise
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Any] = loop.create_future()

        def told(returned: Any, error: BaseException | None) -> None:
            # The place is free when the thread has ended, which may be long after its time-out.
            self._threads.release()
            if reply.done():
                return
            if error is None:
                reply.set_result(returned)
            else:
                reply.set_exception(error)

        def run() -> None:
            returned, failure = None, None
            try:
                returned = work()
            except BaseException as error:  # noqa: BLE001 - handed to who waits for it
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(told, returned, failure)

        Thread(target=run, name=f"tool-{self._name}", daemon=True).start()
        return await reply

    def _reply(self, returned: Any, body_hash: str | None) -> ToolReply:
        write = self._tool.effect == "write"
        document: bytes | None = None
        try:
            document = orjson.dumps(returned)
            if len(document) > RESULT_BYTES:
                raise InvalidResult(f"the result is longer than {RESULT_BYTES} bytes of JSON")
            result = self._results.read(document)
        except TypeError:
            message = "the function returned something that is not JSON"
        except InvalidResult as error:
            message = str(error)
        else:
            return ToolReply(result=result, body_hash=body_hash, used_hash=body_hash)
        reply = failed(INVALID_RESULT, message, outcome_unknown=write, body_hash=body_hash)
        return replace(reply, raw=document)


def _ours(call: ToolCall) -> Mapping[str, str | None]:
    return {"idempotency_key": call.idempotency_key, "subject_id": call.subject_id}


def _imported(place: str, target: str) -> Callable[..., Any]:
    module_name, _, attribute = target.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise BindingError(
            f"{place}: {target!r} cannot be imported ({error}); "
            "expected package.module:function, installed where this process runs"
        ) from error
    if not callable(function):
        raise BindingError(f"{place}: {target!r} is not a function")
    found: Callable[..., Any] = function
    return found


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """The function's signature; None for one that Python cannot look into."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _accepted(signature: inspect.Signature | None) -> frozenset[str]:
    return frozenset(
        name
        for name, parameter in (signature.parameters.items() if signature is not None else ())
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )


def _check_arguments(
    name: str,
    tool: Tool,
    target: str,
    signature: inspect.Signature,
    accepts: frozenset[str],
) -> None:
    """Find out at the start what else would fail at every call.

    Raises:
        BindingError: the function lacks a parameter, or requires one that a call may leave out.
    """
    properties, required = (tool.input_schema.get(key) for key in ("properties", "required"))
    every = set(properties) if isinstance(properties, dict) else set()
    always = every.intersection(required) if isinstance(required, list) else set()
    ours = accepts & _OURS
    if taken := ours & every:
        raise BindingError(
            f"tools.{name}.input_schema: {target!r} gets {', '.join(sorted(taken))} from us; give "
            "the argument another name"
        )
    for names in (every, always):
        try:
            signature.bind(**dict.fromkeys(names | ours))
        except TypeError as error:
            given = ", ".join(sorted(names)) or "none"
            raise BindingError(
                f"tools.{name}.binding.target: {target!r} cannot be called with the tool's "
                f"arguments ({given}): {error}"
            ) from None
