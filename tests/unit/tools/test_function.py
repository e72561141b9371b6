"""Tools that are Python functions, and the binding of a whole catalog."""

from typing import Any

import pytest

from tests.unit.tools import functions
from tests.unit.tools.shop import call, tool
from turnstream.core.definitions import Catalog, FunctionBinding
from turnstream.tools import BindingError, FunctionTool, HttpTool, bind_tools

MODULE = "tests.unit.tools.functions"


def bound(function: str, **changes: Any) -> FunctionTool:
    """A tool that is one of the functions of this folder."""
    binding = FunctionBinding(target=f"{MODULE}:{function}")
    return FunctionTool("get_order_status", tool=tool(**changes), binding=binding)


async def test_a_function_gets_what_it_accepts() -> None:
    """Arguments, idempotency key and customer arrive by name; the result is cut to its schema."""
    functions.calls.clear()
    subject = bound("order")

    reply = await subject.call(call(order_id="A-1001"))
    await subject.close()

    assert functions.calls == [{"order_id": "A-1001", "key": "action-1", "subject": "customer-7"}]
    assert reply.result == {"order_id": "A-1001", "status": "shipped"}
    assert reply.body_hash is not None


async def test_an_asynchronous_function_is_awaited() -> None:
    """A coroutine function runs in the event loop, without a thread."""
    reply = await bound("order_later").call(call(order_id="A-1001"))

    assert reply.result == {"order_id": "A-1001", "status": "delivered"}


@pytest.mark.parametrize(
    ("order_id", "code", "retryable", "unknown_after_write"),
    [
        ("missing", "order_not_found", False, False),
        ("odd", "tool_error", False, False),
        ("broken", "unavailable", True, True),
        ("bug", "tool_error", False, True),
    ],
)
async def test_exceptions_become_replies(
    order_id: str, code: str, retryable: bool, unknown_after_write: bool
) -> None:
    """Each kind of exception has its meaning, and no text of it comes back."""
    for effect in ("read", "write"):
        subject = bound("fails", effect=effect)
        reply = await subject.call(call(order_id=order_id))
        await subject.close()

        assert (reply.error_code, reply.retryable) == (code, retryable)
        assert reply.outcome_unknown == (unknown_after_write and effect == "write")
        assert "secret" not in reply.error_message


async def test_a_hanging_function_times_out() -> None:
    """The wait ends at the tool's time-out although the thread goes on."""
    functions.released.clear()
    subject = bound("hangs", timeout_seconds=0.05, effect="write")

    reply = await subject.call(call(order_id="A-1001"))
    functions.released.set()
    await subject.close()

    assert (reply.error_code, reply.retryable, reply.outcome_unknown) == ("timeout", True, True)


@pytest.mark.parametrize("function", ["no_json", "huge"])
async def test_what_is_no_result_is_refused(function: str) -> None:
    """A value that is not JSON, or too long, is an invalid result."""
    subject = bound(function)
    reply = await subject.call(call(order_id="A-1001"))
    await subject.close()

    assert (reply.result, reply.error_code) == (None, "invalid_result")


@pytest.mark.parametrize(
    "target", ["tests.nowhere:f", f"{MODULE}:absent", f"{MODULE}:NOT_A_FUNCTION"]
)
def test_a_bad_target_is_named(target: str) -> None:
    """A target that cannot be imported or called is refused with its place in the catalog."""
    with pytest.raises(BindingError, match=r"tools\.get_order_status\.binding\.target"):
        FunctionTool("get_order_status", tool=tool(), binding=FunctionBinding(target=target))


def catalog(url: str) -> Catalog:
    """A catalog with one tool of each kind."""
    return Catalog.model_validate(
        {
            "entry_agent": "shop",
            "default_queue": "general",
            "queues": {"general": {"description": "d", "text": {"en": "t"}}},
            "channels": {},
            "agents": {"shop": {"description": "d"}},
            "tools": {
                "over_http": tool(binding={"kind": "http", "url": url}).model_dump(),
                "in_python": tool(
                    binding={"kind": "function", "target": f"{MODULE}:order_later"}
                ).model_dump(),
            },
        }
    )


async def test_a_catalog_is_bound() -> None:
    """Every tool gets a binding of its kind, its base URL from the environment."""
    tools = bind_tools(catalog("{SHOP_URL}/x"), environment={"SHOP_URL": "http://127.0.0.1:9"})
    for binding in tools.values():
        await binding.close()

    assert {"over_http": HttpTool, "in_python": FunctionTool} == {
        name: type(binding) for name, binding in tools.items()
    }


def test_an_unset_base_url_is_named() -> None:
    """A base URL that is not set is refused with the tool and the variable."""
    with pytest.raises(BindingError, match=r"tools\.over_http\.binding.*SHOP_URL"):
        bind_tools(catalog("{SHOP_URL}/x"), environment={})


def test_a_configured_egress_list_wins() -> None:
    """With a list of its own, a deployment refuses a catalog that names another host."""
    with pytest.raises(BindingError, match=r"tools\.over_http\.binding\.url.*shop\.test:80"):
        bind_tools(catalog("http://shop.test/x"), environment={}, egress_allow=("*.internal",))


def test_a_function_that_cannot_take_the_arguments_is_refused_at_the_start() -> None:
    """A parameter of another name, and one that a call may leave out, are named with the tool."""
    optional = {"type": "object", "properties": {"order_id": {"type": "string"}}}
    other = {"type": "object", "required": ["number"], "properties": {"number": {}}}

    with pytest.raises(BindingError, match=r"get_order_status.*\(none\).*'order_id'"):
        bound("order", input_schema=optional)
    with pytest.raises(BindingError, match=r"get_order_status.*\(number\)"):
        bound("order", input_schema=other)


def test_a_function_that_python_cannot_look_into_is_taken() -> None:
    """Some of those written in C have no signature; the first call shows."""
    binding = FunctionBinding(target="builtins:dict")

    assert FunctionTool("get_order_status", tool=tool(), binding=binding) is not None
