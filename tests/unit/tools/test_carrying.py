"""What each binding says that a call carries: what was asked for, whatever JSON it is."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from tests.unit.tools.mcp_shop import Bench, Shop
from tests.unit.tools.shop import call, http_reply, service, tool
from turnstream.core.bindings import FunctionBinding, HttpBinding
from turnstream.core.carried import differences, hash_of
from turnstream.core.ports import ToolBinding
from turnstream.core.servers import McpStdioServer
from turnstream.plain_http import plain_client
from turnstream.tools import Egress, FunctionTool, HttpTool

SHIPPED = b'{"order_id":"A-1","status":"shipped"}'
HERE = "tests.unit.tools.test_carrying"

ARGUMENTS: dict[str, dict[str, Any]] = {
    "text": {"order_id": "A-1"},
    "characters": {"order_id": "é \U0001f600 \x00 / ? & = + % \u2028 e\u0301", "ключ": "значение"},
    "numbers": {"order_id": "A-1", "a": 1e2, "b": 0.1, "c": -0.0, "d": 5e-324, "e": 1e300},
    "integers": {"order_id": "A-1", "a": 2**63 - 1, "b": -(2**63), "c": 2**53 + 1},
    "nothing": {"order_id": "A-1", "a": None, "b": [], "c": {}, "d": "", "e": False},
    "nested": {"order_id": "A-1", "a": {"b": [{"c": None, "d": [1.0, {"e": "é"}]}], "": 0}},
    "lists": {"order_id": "A-1", "a": ["1", 1, True, None, ["x"], {"y": 1.5}]},
}


def open_order(order_id: str, page: int = 1, **others: object) -> dict[str, Any]:
    """A function with a default and room for anything."""
    return {"order_id": "A-1", "status": "shipped"}


class Opener:
    """Binds in one way; what it opens is closed at the end of the test."""

    def __init__(self, way: str, stack: AsyncExitStack, folder: Path) -> None:
        self.way = way
        self.stack = stack
        self.folder = folder

    async def __call__(self) -> ToolBinding:
        """A binding."""
        bench = Bench(self.stack, Shop())
        if self.way == "function":
            binding = FunctionBinding(target=f"{HERE}:open_order")
            return FunctionTool("get_order", tool=tool(), binding=binding)
        if self.way == "mcp":
            subject, _ = await bench.over_http()
            return subject
        if self.way == "mcp by pipes":
            server = McpStdioServer(
                transport="stdio",
                command=sys.executable,
                args=("-m", "tests.mcp_process", "stdio", str(self.folder)),
                env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
            )
            return bench.bound(server)
        served = service(lambda _: http_reply(SHIPPED))
        base, _ = await self.stack.enter_async_context(served)
        bound = HttpTool(
            "get_order",
            tool=tool(),
            binding=HttpBinding.model_validate(
                {"method": self.way, "url": f"{base}/orders/{{order_id}}?v=1"}
            ),
            client=plain_client(),
            egress=Egress.of_urls([base]),
        )
        self.stack.push_async_callback(bound.close)
        return bound


@pytest.fixture(params=["GET", "POST", "function", "mcp", "mcp by pipes"])
async def opener(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    """One way of binding."""
    async with AsyncExitStack() as stack:
        yield Opener(request.param, stack, tmp_path)


async def test_a_call_carries_what_was_asked_for(opener: Opener) -> None:
    """Said before the first byte, and hashed afterwards: no JSON is taken for another."""
    subject = await opener()
    for arguments in ARGUMENTS.values():
        said: list[Mapping[str, JsonValue]] = []
        one = replace(call(**arguments), sending=said.append)

        reply = await subject.call(one)

        assert [()] == [differences(arguments, carried) for carried in said]
        assert hash_of(arguments) == reply.body_hash
        assert reply.used_hash in (None, reply.body_hash)


async def test_an_argument_may_have_the_name_of_the_rest() -> None:
    """`**filters` takes an argument `filters` as any other."""
    binding = FunctionBinding(target="tests.unit.tools.functions:named_by_its_rest")
    subject = FunctionTool("get_order", tool=tool(), binding=binding)
    said: list[Mapping[str, JsonValue]] = []
    arguments: dict[str, JsonValue] = {"filters": "A-1", "page": 2}

    reply = await subject.call(replace(call(**arguments), sending=said.append))

    assert (None, hash_of(arguments)) == (reply.error_code, reply.body_hash)
    assert [arguments] == said


async def test_a_function_that_is_asked_again_is_asked_the_same() -> None:
    """What a reconciling function does with its arguments stays with it."""
    binding = FunctionBinding(
        target=f"{HERE}:open_order", reconcile="tests.unit.tools.functions:sorted_before"
    )
    subject = FunctionTool("get_order", tool=tool(), binding=binding)
    asked = call(order_id="A-1", tags=["x", "A-1"])

    found = [await subject.reconcile(asked) for _ in range(2)]

    assert found[0] == found[1]
    assert ["x", "A-1"] == asked.arguments["tags"]


async def test_a_function_that_takes_less_says_what_it_was_given() -> None:
    """The call fails, and what it was given is no fault of ours."""
    binding = FunctionBinding(target="tests.unit.tools.functions:order")
    subject = FunctionTool("get_order", tool=tool(), binding=binding)

    reply = await subject.call(call(order_id="A-1", more=1))

    assert ("tool_error", hash_of({"order_id": "A-1", "more": 1})) == (
        reply.error_code,
        reply.body_hash,
    )
