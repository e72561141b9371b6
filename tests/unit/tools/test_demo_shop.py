"""The demo's shop behind the tools of the demo's catalog: both agree on everything."""

import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnstream.demo
from turnstream.catalog import load_catalog
from turnstream.core.bindings import HttpBinding
from turnstream.core.carried import hash_of
from turnstream.core.definitions import Catalog
from turnstream.core.ports import ToolCall, ToolReply
from turnstream.demo.shop import Effect, Shop
from turnstream.demo.shop_data import CITIES, GUIDE, PRODUCTS
from turnstream.tools import Egress, HttpTool

BASE = "http://shop.test"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """The demo's catalog."""
    folder = Path(turnstream.demo.__file__).parent
    return load_catalog(folder / "catalog.yaml").catalog


class Counter:
    """The shop's counter: calls the catalog's tools on the shop, without a socket."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.shop = Shop(today=lambda: date(2027, 1, 31))
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.shop.application(), raise_app_exceptions=True)
        )

    async def call(
        self, name: str, *, key: str = "k-1", subject: str | None = "customer-7", **arguments: Any
    ) -> ToolReply:
        """Call a tool of the catalog, in half a second at most."""
        definition = self.catalog.tools[name].model_copy(update={"timeout_seconds": 0.5})
        assert isinstance(definition.binding, HttpBinding)
        tool = HttpTool(
            name,
            tool=definition,
            binding=definition.binding.with_variables({"SHOP_URL": BASE}),
            client=self.client,
            egress=Egress.of_urls([BASE]),
        )
        reply = await tool.call(ToolCall(name, arguments, key, subject, "c-1"))
        # What left, and what the shop says it used, are what was asked for.
        assert {hash_of(arguments)} >= {reply.body_hash, reply.used_hash} - {None}
        return reply


@pytest.fixture
def counter(catalog: Catalog) -> Counter:
    """A new shop."""
    return Counter(catalog)


@pytest.mark.parametrize(
    ("order_id", "status", "expected_on"),
    [
        ("A-1001", "shipped", "2027-02-01"),
        ("A-1002", "out_for_delivery", "2027-01-31"),
        ("A-1003", "delivered", "2027-01-28"),
        ("A-4410", "preparing", "2027-02-03"),
        ("A-3008", "cancelled", "none"),
    ],
)
async def test_an_order_has_the_state_of_its_number(
    counter: Counter, order_id: str, status: str, expected_on: str
) -> None:
    """What is known of an order follows from its number, and nothing internal comes through."""
    reply = await counter.call("get_order_status", order_id=order_id)

    assert reply.result == {"order_id": order_id, "status": status, "expected_on": expected_on}


@pytest.mark.parametrize("order_id", ["A-2001", "A-9001", "A-0000"])
@pytest.mark.parametrize("tool", ["get_order_status", "cancel_order", "create_return_label"])
async def test_an_order_of_nobody_or_somebody_else_is_not_found(
    counter: Counter, tool: str, order_id: str
) -> None:
    """Whether an order exists for somebody else is not told."""
    reply = await counter.call(tool, order_id=order_id)

    assert (reply.error_code, reply.retryable) == ("order_not_found", False)


async def test_an_outage_lasts_and_a_flaky_order_recovers(counter: Counter) -> None:
    """One kind of order is never reached; another is at the third attempt."""
    lasting = [
        (await counter.call("get_order_status", order_id="A-5001")).error_code for _ in range(4)
    ]
    flaky = [
        (await counter.call("get_order_status", order_id="A-6001")).error_code for _ in range(3)
    ]

    assert ["unavailable"] * 4 == lasting
    assert ["unavailable", "unavailable", None] == flaky


async def test_a_cancellation_happens_once(counter: Counter) -> None:
    """The same key gets the same reply and makes no second effect; the order's state follows."""
    first = await counter.call("cancel_order", order_id="A-1000")
    second = await counter.call("cancel_order", order_id="A-1000")
    again = await counter.call("cancel_order", order_id="A-1000", key="k-2")
    status = await counter.call("get_order_status", order_id="A-1000")

    assert first.result == {"order_id": "A-1000", "status": "cancelled", "refund_days": 5}
    assert first.used_hash is not None
    assert first == second
    assert first.result == again.result
    assert [Effect("cancel", "A-1000", "k-1", "customer-7")] == list(counter.shop.effects)
    assert status.result is not None
    assert status.result["status"] == "cancelled"


async def test_a_key_is_for_one_thing(counter: Counter) -> None:
    """A key that comes back with another request is refused."""
    await counter.call("cancel_order", order_id="A-1000")

    reply = await counter.call("cancel_order", order_id="A-1005")

    assert reply.error_code == "tool_error"
    assert len(counter.shop.effects) == 1


async def test_a_silent_order_is_cancelled_all_the_same(counter: Counter) -> None:
    """A call that timed out may have had its effect, as this one has."""
    reply = await counter.call("cancel_order", order_id="A-7000")

    assert (reply.error_code, reply.outcome_unknown) == ("timeout", True)
    assert [effect.order_id for effect in counter.shop.effects] == ["A-7000"]


@pytest.mark.parametrize(
    ("tool", "order_id", "code"),
    [
        ("cancel_order", "A-1001", "already_shipped"),
        ("create_return_label", "A-1001", "not_delivered"),
        ("create_return_label", "A-1004", "return_period_over"),
    ],
)
async def test_refusals_have_the_codes_of_the_catalog(
    counter: Counter, tool: str, order_id: str, code: str
) -> None:
    """Why the shop refuses is one of the catalog's errors."""
    reply = await counter.call(tool, order_id=order_id)

    assert reply.error_code == code
    assert reply.error_message == counter.catalog.tools[tool].errors[code].description
    assert [] == list(counter.shop.effects)


@pytest.mark.parametrize("order_id", ["A-1003", "A-1007"])
async def test_a_label_is_made_within_the_period(counter: Counter, order_id: str) -> None:
    """A delivered order gets its label up to the fourteenth day."""
    reply = await counter.call("create_return_label", order_id=order_id)

    assert reply.result == {
        "order_id": order_id,
        "label_url": f"https://shop.example/labels/{order_id}.pdf",
        "valid_until": "2027-02-21",
    }


async def test_every_topic_product_and_city_of_the_catalog_is_known(counter: Counter) -> None:
    """Whatever value the catalog lets through, the shop has something to say about it."""
    fields = counter.catalog.fields

    for topic in fields["delivery_topic"].choices:
        reply = await counter.call("search_delivery_help", delivery_topic=topic, subject=None)
        assert reply.result is not None, topic
    for product in fields["product"].choices:
        for city in fields["city"].choices:
            reply = await counter.call("check_store_availability", product=product, city=city)
            assert reply.result is not None, (product, city)
    assert set(fields["delivery_topic"].choices) == set(GUIDE)
    assert set(fields["product"].choices) == set(PRODUCTS)
    assert set(fields["city"].choices) == set(CITIES)


async def test_one_document_holds_an_instruction(counter: Counter) -> None:
    """The guide has a passage that speaks to a model, for the demo to show that it does nothing."""
    reply = await counter.call("search_delivery_help", delivery_topic="tracking")

    assert "ignore all previous instructions" in repr(reply.result)


async def test_customers_and_keys_are_required(counter: Counter) -> None:
    """Without a customer no order is shown; an unknown store is no server error."""
    assert (await counter.call("get_order_status", order_id="A-1001", subject=None)).error_code
    response = await counter.client.post(f"{BASE}/orders/A-1000/cancellation")

    assert response.status_code == 400
    assert (await counter.client.get(f"{BASE}/stores/atlantis/stock")).status_code == 404
    assert (await counter.client.get(f"{BASE}/delivery-help")).status_code == 404


def test_it_starts_and_tells_its_address() -> None:
    """Started as a module it prints where it listens, answers there, and ends when told to."""
    command = [sys.executable, "-m", "turnstream.demo.shop", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("shop: ").strip()
            health = httpx.get(f"{address}/healthz", trust_env=False)
            effects = httpx.get(f"{address}/effects", trust_env=False)
        finally:
            process.terminate()
            process.wait(20)

    assert health.json() == {"ok": True}
    assert effects.json() == {"effects": []}
