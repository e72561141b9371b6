"""Calls that are not the model's, and tools that used something else: told, and never retried."""

import hashlib
import json

import pytest
from pydantic import JsonValue

from tests.unit.roles.altering import ARGUMENTS, NAME, Desk, asked, order_tool, told
from tests.unit.tools.shop import http_reply, service
from turnstream.core.bindings import HttpBinding
from turnstream.core.ports import Reconciliation, ToolCall, ToolReply
from turnstream.plain_http import plain_client
from turnstream.tools import Egress, HttpTool


class Echoing:
    """A binding that says what its tool used."""

    def __init__(self, reply: ToolReply) -> None:
        self.reply = reply
        self.asked = 0

    async def call(self, call: ToolCall) -> ToolReply:
        """Give the reply."""
        call.sending(call.arguments)
        return self.reply

    @property
    def reconciles(self) -> bool:
        """It would say that the call was carried out."""
        return True

    async def reconcile(self, call: ToolCall) -> Reconciliation:
        """Say so."""
        self.asked += 1
        return Reconciliation("found", ToolReply({"status": "shipped"}))

    async def close(self) -> None:
        """Nothing to release."""


OTHERS = ToolReply({"status": "shipped"}, used={"order_id": "A-1002"})


@pytest.mark.parametrize(
    ("reply", "effect", "outcome"),
    [
        (OTHERS, "read", "failed"),
        (OTHERS, "write", "outcome_unknown"),
        (ToolReply({"status": "shipped"}, used_hash="0" * 64), "write", "outcome_unknown"),
        (ToolReply(None, "order_not_found", used_hash="0" * 64), "write", "failed"),
    ],
)
async def test_a_tool_that_used_something_else(reply: ToolReply, effect: str, outcome: str) -> None:
    """Its result is not used, and it is not asked about a call that it did not carry out."""
    definition = order_tool(effect)
    binding = Echoing(reply)
    desk = Desk(binding, definition)

    result = await desk.run(asked(effect=effect))

    assert (outcome, "arguments_altered", False) == told(result)
    assert (1, 0) == (desk.altered("used"), binding.asked)


class AlteredLater(Echoing):
    """Gets no reply to what it sent as it was asked; its next attempt would be another call."""

    attempts = 0

    async def call(self, call: ToolCall) -> ToolReply:
        """Send, or try to."""
        self.attempts += 1
        call.sending(call.arguments if self.attempts == 1 else {"order_id": "A-1002"})
        return ToolReply(None, "timeout", retryable=True, outcome_unknown=True)


async def test_an_attempt_before_the_altered_one_is_asked_about() -> None:
    """The altered one did not leave: what the tool finds is the call that was asked for."""
    definition = order_tool("write", idempotent=True)
    binding = AlteredLater(OTHERS)
    desk = Desk(binding, definition)

    result = await desk.reconciled(asked(effect="write"))

    assert ("done", None, False) == told(result)
    assert (2, 1, 1) == (binding.attempts, desk.altered("sent"), binding.asked)


async def test_a_service_shows_what_it_used(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the binding says so: equal is fine, else the log names the place and no value."""
    definition = order_tool()
    results = []
    for used in ({"order_id": "A-1001", "idempotency_key": "a-1"}, {"order_id": "secret-1"}, None):
        body = {"order_id": "A-1001", "status": "shipped"} | ({"used": used} if used else {})
        async with service(lambda _, body=body: http_reply(json.dumps(body).encode())) as (base, _):  # type: ignore[misc]
            url = {"method": "GET", "url": f"{base}/orders/{{order_id}}", "used_path": "used"}
            binding = HttpTool(
                NAME,
                tool=definition,
                binding=HttpBinding.model_validate(url),
                client=plain_client(),
                egress=Egress.of_urls([base]),
            )
            results.append(told(await Desk(binding, definition).run(asked())))
            await binding.close()

    assert [
        ("done", None, False),
        ("failed", "arguments_altered", False),
        ("failed", "invalid_result", False),
    ] == results
    out = capsys.readouterr().out
    assert 1 == out.count("a call does not carry what was asked for")
    assert "/order_id" in out
    assert "secret-1" not in out


@pytest.mark.parametrize(
    ("sent", "used"),
    [
        ({}, '{"order_id":"A-1001","note":null,"address":{"zip":null,"country":"DE"}}'),
        ({"address": {}}, '{"order_id":"A-1001","address":{"country":"DE"}}'),
        ({"amount": 1e16}, '{"order_id":"A-1001","amount":10000000000000000}'),
        ({"amount": 1e19}, '{"order_id":"A-1001","amount":10000000000000000000}'),
        ({"amount": 1e22}, '{"amount":10000000000000000000000,"order_id":"A-1001"}'),
        ({"amount": 10**16}, '{"order_id":"A-1001","amount":1e16}'),
    ],
)
async def test_a_write_that_is_shown_honestly_is_done(
    sent: dict[str, JsonValue], used: str
) -> None:
    """With what a service adds or writes in another way: there is nobody who must look into it."""
    country = {"type": "object", "properties": {"country": {"default": "DE"}}}
    properties = {"order_id": {"type": "string"}, "address": country}
    definition = order_tool("write", input_schema={"type": "object", "properties": properties})
    body = f'{{"order_id":"A-1001","status":"shipped","used":{used}}}'
    async with service(lambda _: http_reply(body.encode())) as (base, _):
        url = {"method": "POST", "url": f"{base}/orders", "used_path": "used"}
        binding = HttpTool(
            NAME,
            tool=definition,
            binding=HttpBinding.model_validate(url),
            client=plain_client(),
            egress=Egress.of_urls([base]),
        )
        desk = Desk(binding, definition)
        result = await desk.run(asked({**ARGUMENTS, **sent}, effect="write"))
        await binding.close()

    assert ("done", None, False) == told(result)
    assert 0 == desk.altered("used") + desk.altered("sent")


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"amount":100,"large":10000000000000000,"name":"é","order_id":"A-1001"}', "done"),
        ('{"order_id":"A-1001","name":"é","large":1e+16,"amount":100.0}', "done"),
        ('{"amount":100.0,"large":1e+16,"name":"é","order_id":"A-1001"}', "outcome_unknown"),
        ('{"order_id":"A-1001","name":"\\u00e9","large":1e+16,"amount":100.0}', "outcome_unknown"),
    ],
)
async def test_a_hash_of_what_was_used_has_one_of_two_forms(text: str, outcome: str) -> None:
    """In one, names and numbers are brought into order; in the other they are left as they came."""
    used_hash = hashlib.sha256(text.encode()).hexdigest()
    definition = order_tool("write")
    desk = Desk(Echoing(ToolReply({"status": "shipped"}, used_hash=used_hash)), definition)
    given: dict[str, JsonValue] = {"name": "é", "large": 1e16, "amount": 100.0}

    result = await desk.run(asked({**ARGUMENTS, **given}, effect="write"))

    assert outcome == result.outcome


# --- what the model asked for -------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_arguments_that_are_not_the_models_are_not_sent(effect: str) -> None:
    """Nothing is begun: no record, no call."""
    definition = order_tool(effect)
    desk = Desk(Echoing(OTHERS), definition)

    result = await desk.run(asked(effect=effect, model_arguments_json='{"order_id":"A-1002"}'))

    assert ("denied", "arguments_altered", False) == told(result)
    assert (0, 1, []) == (result.attempts, desk.altered("gated"), desk.lane.committed)


async def test_a_decision_by_another_catalog_is_not_compared() -> None:
    """What that one declared is not known here."""
    definition = order_tool()
    desk = Desk(Echoing(ToolReply({"status": "shipped"})), definition)
    event = asked(model_arguments_json='{"order_id":"A-1002"}')
    versions = event.versions.model_copy(update={"decision_version": "older"})

    result = await desk.run(event.model_copy(update={"versions": versions}))

    assert ("done", None, False) == told(result)
