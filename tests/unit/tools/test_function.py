"""Tools that are Python functions, and the binding of a whole catalog."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.tools import functions
from tests.unit.tools.shop import call, tool
from turnstream.core.bindings import FunctionBinding
from turnstream.core.definitions import Catalog
from turnstream.core.ports import Reconciliation, ToolReply
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


def reconciled(target: str, **changes: Any) -> FunctionTool:
    """A write that can be asked about."""
    binding = FunctionBinding(target=f"{MODULE}:order", reconcile=f"{MODULE}:{target}")
    definition = tool(**({"effect": "write"} | changes))
    return FunctionTool("get_order_status", tool=definition, binding=binding)


@pytest.mark.parametrize(
    ("order_id", "expected"),
    [
        (
            "A-1001",
            Reconciliation(
                "found", ToolReply({"order_id": "A-1001/action-1", "status": "shipped"})
            ),
        ),
        ("never", Reconciliation("not_found")),
        ("broken", Reconciliation("unknown", retryable=True)),
        ("bug", Reconciliation("unknown")),
        ("nothing", Reconciliation("unknown")),
    ],
)
async def test_a_second_function_says_what_became_of_a_call(
    order_id: str, expected: Reconciliation
) -> None:
    """Only a result or the one exception is an answer."""
    subject = reconciled("order_by_key")

    assert subject.reconciles
    assert expected == await subject.reconcile(call(order_id=order_id))


async def test_the_second_function_may_be_asynchronous() -> None:
    """It gets only what it has parameters for."""
    found = await reconciled("order_by_key_later").reconcile(call(order_id="A-1001"))

    assert found.reply is not None
    assert {"order_id": "action-1", "status": "delivered"} == found.reply.result


async def test_a_function_without_a_second_one_cannot_be_asked() -> None:
    """It says so."""
    subject = bound("order")

    assert not subject.reconciles
    assert Reconciliation("unknown") == await subject.reconcile(call(order_id="A-1001"))


@pytest.mark.parametrize(("target", "match"), [("fails", "idempotency_key"), ("none", "imported")])
def test_an_unfit_second_function_refuses_the_start(target: str, match: str) -> None:
    """Without the key it could not know which call is meant."""
    with pytest.raises(BindingError, match=match):
        reconciled(target)


@pytest.mark.parametrize("function", ["fails", "order_later", "anything"])
def test_an_idempotent_write_must_take_the_key(function: str) -> None:
    """Without it a second call could not be told from a first, and would be carried out again."""
    with pytest.raises(BindingError, match=r"get_order_status\.idempotent: .*idempotency_key"):
        bound(function, effect="write", idempotent=True)

    assert bound(function, effect="write") is not None
    assert bound("order", effect="write", idempotent=True) is not None


def test_an_argument_cannot_take_the_name_of_the_key() -> None:
    """Else every call would fail, or a model would choose the key."""
    schema = {"type": "object", "properties": {"order_id": {}, "idempotency_key": {}}}

    with pytest.raises(BindingError, match="idempotency_key"):
        bound("order", input_schema=schema)


@pytest.mark.parametrize("function", ["order", "order_later"])
async def test_a_function_is_not_begun_when_the_call_must_not_go_out(function: str) -> None:
    """What says so passes unchanged, in a thread or in the event loop."""

    def sending(_: object) -> None:
        raise PermissionError("not ours")

    functions.calls.clear()
    subject = bound(function, effect="write")

    for _ in range(40):
        with pytest.raises(PermissionError, match="not ours"):
            await subject.call(replace(call(order_id="A-1001"), sending=sending))
    assert [] == functions.calls
    assert (await subject.call(call(order_id="A-1001"))).error_code is None
