"""What every binding of a tool promises, whatever is on its other side."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest

from tests.contract.warehouse import SECRET, Asked, Warehouse, answered, reopened
from tests.contract.warehouse_mcp import SUBJECT, warehouse_server
from tests.mcp_serving import mcp_serving
from tests.unit.tools.shop import call, service, tool
from turnstream.core.bindings import FunctionBinding, HttpBinding, McpBinding, McpReconcile
from turnstream.core.ports import Reconciliation, ToolBinding, ToolReply
from turnstream.core.servers import McpHttpServer
from turnstream.plain_http import plain_client
from turnstream.tools import Egress, FunctionTool, HttpTool
from turnstream.tools.mcp import McpTool
from turnstream.tools.mcp_connection import McpConnection

HERE: Final = "tests.contract.warehouse"
SHIPPED: Final = {"order_id": "A-1001", "status": "shipped"}

PATIENCE: Final = 60.0
"""Time-out of calls that are answered, in seconds: longer than a busy machine ever takes."""

SILENCE: Final = 3.0
"""Time-out of calls that are not: the request is out by then, also where a session opens first."""


@dataclass
class Binder:
    """Binds a tool to the warehouse in one way; what it opens is closed at the end of the test."""

    way: str
    stack: AsyncExitStack

    async def __call__(self, *, reconcile: bool = False, **changes: Any) -> ToolBinding:
        """A binding of the tool with changes, which can be asked about calls or not."""
        changes = {"timeout_seconds": PATIENCE, **changes}
        ways = {"http": self._http, "mcp": self._mcp, "mcp with sessions": self._mcp}
        bound = await ways.get(self.way, self._function)(reconcile, changes)
        self.stack.push_async_callback(bound.close)
        return bound

    async def _function(self, reconcile: bool, changes: dict[str, Any]) -> ToolBinding:
        later = "_later" if self.way == "coroutine" else ""
        binding = FunctionBinding(
            target=f"{HERE}:order{later}",
            reconcile=f"{HERE}:became_of{later}" if reconcile else None,
        )
        return FunctionTool("get_order", tool=tool(**changes), binding=binding)

    async def _mcp(self, reconcile: bool, changes: dict[str, Any]) -> ToolBinding:
        served = mcp_serving(warehouse_server(), sessions=self.way != "mcp")
        url, _ = await self.stack.enter_async_context(served)
        binding = McpBinding(
            server="warehouse",
            subject_meta=SUBJECT,
            reconcile=McpReconcile(tool="became_of") if reconcile else None,
        )
        server = McpHttpServer(transport="streamable_http", url=url)
        connection = McpConnection("warehouse", server, egress=Egress.of_urls([url]))
        await connection.listing(await connection.live())  # part of the first call's time-out
        return McpTool("get_order", tool=tool(**changes), binding=binding, connection=connection)

    async def _http(self, reconcile: bool, changes: dict[str, Any]) -> ToolBinding:
        url, _ = await self.stack.enter_async_context(service(answered))
        asking = {"url": f"{url}/calls/{{idempotency_key}}/{{order_id}}"}
        binding = HttpBinding.model_validate(
            {
                "method": "GET",
                "url": f"{url}/orders/{{order_id}}",
                "subject_header": "X-Customer",
                "reconcile": asking if reconcile else None,
            }
        )
        return HttpTool(
            "get_order",
            tool=tool(**changes),
            binding=binding,
            client=plain_client(),
            egress=Egress.of_urls([url]),
        )


@pytest.fixture
def house() -> Warehouse:
    """The other side."""
    return reopened()


@pytest.fixture(params=["http", "function", "coroutine", "mcp", "mcp with sessions"])
async def bind(request: pytest.FixtureRequest, house: Warehouse) -> AsyncIterator[Binder]:
    """One way of binding a tool."""
    async with AsyncExitStack() as stack:
        yield Binder(request.param, stack)
        house.open.set()


# --- a call -------------------------------------------------------------------------------------


async def test_a_call_brings_arguments_key_and_customer(bind: Binder, house: Warehouse) -> None:
    """Once, and what comes back is what the result schema declares."""
    subject = await bind()

    reply = await subject.call(call(order_id="A-1001"))

    assert [Asked("A-1001", "action-1", "customer-7")] == house.calls
    assert (SHIPPED, None) == (reply.result, reply.error_code)


async def test_a_call_for_nobody_brings_no_customer(bind: Binder, house: Warehouse) -> None:
    """The customer of an unauthenticated conversation is absent, not some text."""
    subject = await bind()

    await subject.call(replace(call(order_id="A-1001"), subject_id=None))

    assert [Asked("A-1001", "action-1", None)] == house.calls


@pytest.mark.parametrize(
    ("order_id", "code", "retryable", "in_doubt"),
    [
        ("missing", {"order_not_found"}, False, False),
        ("odd", {"tool_error"}, False, False),
        ("silent", {"timeout"}, True, True),
        ("broken", {"unavailable"}, True, True),
        ("bug", {"tool_error", "unavailable"}, None, True),
        ("nonsense", {"invalid_result"}, False, True),
        ("huge", {"invalid_result"}, False, True),
    ],
)
async def test_a_failure_is_a_reply(
    bind: Binder,
    order_id: str,
    code: set[str],
    retryable: bool | None,
    in_doubt: bool,
) -> None:
    """With a code of ours or the catalog's, the doubt after a write, and no word of the others."""
    seconds = SILENCE if order_id == "silent" else PATIENCE
    for effect in ("read", "write"):
        subject = await bind(effect=effect, timeout_seconds=seconds)

        reply = await subject.call(call(order_id=order_id))

        assert reply.error_code in code
        assert reply.result is None
        assert retryable in (None, reply.retryable)
        assert (in_doubt and effect == "write") == reply.outcome_unknown
        assert SECRET not in repr(reply)


async def test_a_declared_error_has_the_catalogs_words(bind: Binder) -> None:
    """They are what a model and a person may read."""
    reply = await (await bind()).call(call(order_id="missing"))

    assert "There is no such order." == reply.error_message


async def test_the_hash_is_of_what_was_sent(bind: Binder) -> None:
    """Equal for equal arguments, of a call that failed too, and another for others."""
    subject = await bind(timeout_seconds=0.1)
    one, again, other, failed, failed_again = [
        (await subject.call(call(order_id=order_id))).body_hash
        for order_id in ("A-1001", "A-1001", "A-1002", "silent", "silent")
    ]

    assert None not in (one, failed)
    assert (one, failed) == (again, failed_again)
    assert one != other


async def test_calls_at_once_get_their_own_replies(bind: Binder) -> None:
    """Whichever is answered first."""
    subject = await bind()
    orders = [f"A-{number}" for number in range(20)]

    replies = await asyncio.gather(*(subject.call(call(order_id=one)) for one in orders))

    assert orders == [reply.result["order_id"] for reply in replies if reply.result is not None]


async def test_a_call_can_be_given_up(bind: Binder, house: Warehouse) -> None:
    """Cancelling ends the wait at once; it is the caller's doing and no reply."""
    subject = await bind()
    waiting = asyncio.create_task(subject.call(call(order_id="silent")))
    async with asyncio.timeout(10):
        while not house.calls:  # noqa: ASYNC110 - the other side is no coroutine
            await asyncio.sleep(0.001)

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


# --- before the first byte ----------------------------------------------------------------------


async def test_a_call_says_when_it_goes_out(bind: Binder, house: Warehouse) -> None:
    """Once, while the other side has seen nothing."""
    seen: list[int] = []
    subject = await bind()

    reply = await subject.call(
        replace(call(order_id="A-1001"), sending=lambda _: seen.append(len(house.calls)))
    )

    assert [0] == seen
    assert SHIPPED == reply.result


@pytest.mark.parametrize("why", [RuntimeError, TimeoutError, ConnectionResetError])
async def test_a_call_that_may_not_go_out_does_not(
    bind: Binder, house: Warehouse, why: type[Exception]
) -> None:
    """What says so reaches the caller whatever it is, and the next call is as good as any."""
    subject = await bind(effect="write")

    def refuse(_: object) -> None:
        raise why

    with pytest.raises(why):
        await subject.call(replace(call(order_id="A-1001"), sending=refuse))

    assert [] == house.calls
    assert SHIPPED == (await subject.call(call(order_id="A-1001"))).result


# --- what became of a call ----------------------------------------------------------------------


async def test_a_binding_that_cannot_be_asked_says_so(bind: Binder, house: Warehouse) -> None:
    """And knows nothing, without troubling anybody."""
    subject = await bind(effect="write")

    assert not subject.reconciles
    assert Reconciliation("unknown") == await subject.reconcile(call(order_id="A-1001"))
    assert ([], []) == (house.calls, house.questions)


@pytest.mark.parametrize(
    ("order_id", "expected"),
    [
        ("A-1001", Reconciliation("found", ToolReply(SHIPPED))),
        ("never", Reconciliation("not_found")),
        ("silent", Reconciliation("unknown", retryable=True)),
        ("broken", Reconciliation("unknown", retryable=True)),
        ("bug", Reconciliation("unknown")),
        ("nonsense", Reconciliation("unknown")),
        ("huge", Reconciliation("unknown")),
    ],
)
async def test_only_a_clear_answer_counts(
    bind: Binder, house: Warehouse, order_id: str, expected: Reconciliation
) -> None:
    """Asking is by the call's key and calls nothing; `found` has what the call would have given."""
    seconds = SILENCE if order_id == "silent" else PATIENCE
    subject = await bind(reconcile=True, effect="write", timeout_seconds=seconds)

    found = await subject.reconcile(call(order_id=order_id))

    assert subject.reconciles
    assert (expected.verdict, expected.reply) == (found.verdict, found.reply)
    assert order_id == "bug" or expected.retryable == found.retryable
    assert ([], ["action-1"]) == (house.calls, house.questions)
