"""Tools that are Python functions.

A function gets the arguments by name, and ``idempotency_key`` and ``subject_id`` if it has
parameters of these names. It returns the result, or raises :class:`~turnstream.tools.ToolFailure`
with one of the tool's error codes. An ordinary function runs in a thread of its own; its time-out
ends the wait, not the thread. The threads are daemons: one that hangs does not keep the process
from ending, as the threads of an executor would.
"""

import asyncio
import contextlib
import hashlib
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, Final

import orjson

from turnstream.core.definitions import FunctionBinding, Tool
from turnstream.core.ports import ToolCall, ToolReply
from turnstream.tools.errors import (
    INVALID_RESULT,
    TIMEOUT,
    TOOL_ERROR,
    UNAVAILABLE,
    BindingError,
    ToolFailure,
    failed,
    refused,
)
from turnstream.tools.results import RESULT_BYTES, InvalidResult, ResultSchema

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
        self._function = _imported(name, binding.target)
        self._asynchronous = inspect.iscoroutinefunction(self._function)
        signature = _signature(self._function)
        self._accepts = _accepted(signature)
        if signature is not None:
            _check_arguments(name, tool, binding.target, signature, self._accepts)
        self._results = ResultSchema(tool.result_schema)
        self._name = name
        self._threads = asyncio.Semaphore(_THREADS)

    async def call(self, call: ToolCall) -> ToolReply:
        """Make one call, within the tool's time-out."""
        write = self._tool.effect == "write"
        body_hash = hashlib.sha256(orjson.dumps(dict(call.arguments))).hexdigest()
        extra = {"idempotency_key": call.idempotency_key, "subject_id": call.subject_id}
        accepted = {name: value for name, value in extra.items() if name in self._accepts}
        work = partial(self._function, **call.arguments, **accepted)
        try:
            async with asyncio.timeout(self._tool.timeout_seconds):
                returned = await self._run(work)
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
        except Exception as error:  # noqa: BLE001 - the function is the other side of this port
            return failed(
                TOOL_ERROR,
                f"the function raised {type(error).__name__}",
                outcome_unknown=write,
                body_hash=body_hash,
            )
        return self._reply(returned, body_hash)

    async def close(self) -> None:
        """Do nothing: threads that still run are not waited for."""

    async def _run(self, work: Callable[[], Any]) -> Any:
        if self._asynchronous:
            return await work()
        await self._threads.acquire()
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

    def _reply(self, returned: Any, body_hash: str) -> ToolReply:
        write = self._tool.effect == "write"
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
            return ToolReply(result=result, body_hash=body_hash)
        return failed(INVALID_RESULT, message, outcome_unknown=write, body_hash=body_hash)


def _imported(name: str, target: str) -> Callable[..., Any]:
    module_name, _, attribute = target.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise BindingError(
            f"tools.{name}.binding.target: {target!r} cannot be imported ({error}); "
            "expected package.module:function, installed where this process runs"
        ) from error
    if not callable(function):
        raise BindingError(f"tools.{name}.binding.target: {target!r} is not a function")
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
    ours = accepts & {"idempotency_key", "subject_id"}
    for names in (every, always):
        try:
            signature.bind(**dict.fromkeys(names | ours))
        except TypeError as error:
            given = ", ".join(sorted(names)) or "none"
            raise BindingError(
                f"tools.{name}.binding.target: {target!r} cannot be called with the tool's "
                f"arguments ({given}): {error}"
            ) from None
