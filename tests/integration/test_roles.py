"""The five roles as processes on a real broker: one conversation all the way, and a restart."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from tests.integration.deployed import Deployed, RoleProcess, deployed, now_ms, turn, until
from turnstream.core.events import Answer, ConversationControl, Event, Label, ToolResult
from turnstream.core.publications import (
    ActionEvent,
    OutboundMessage,
    Outcome,
    ShadowComparison,
    ShadowProposal,
)
from turnstream.roles.run import ROLES

M = TypeVar("M", bound=Event)

TURNS = "conversation.turns"


async def published(
    on: Deployed, model: type[M], count: int, *, of: str, roles: Sequence[RoleProcess]
) -> list[M]:
    """Wait until a conversation has so many events of a kind, and not one more; give them."""
    found: list[M] = []

    async def enough() -> bool:
        events = await on.events(model)
        found[:] = [one for one in events if getattr(one, "conversation_id", "") == of]
        return len(found) >= count

    await until(enough, lambda: "\n".join(role.text()[-2000:] for role in roles))
    assert count == len(found), found
    return found


def control(conversation_id: str, kind: str) -> ConversationControl:
    """A command."""
    return ConversationControl.model_validate(
        {
            "control_id": f"{kind}-1",
            "conversation_id": conversation_id,
            "kind": kind,
            "actor": "desk",
            "occurred_at": now_ms(),
        }
    )


async def obeyed(on: Deployed, command: ConversationControl, decide: RoleProcess) -> None:
    """Give a command and wait until it is committed: topics are read side by side."""
    partition, offset = await on.send(command)

    async def committed() -> bool:
        labels = {"topic": "conversation.control", "partition": str(partition)}
        return await decide.sample("committed_offset", **labels) > offset

    await until(committed, decide.text)


async def test_a_conversation_goes_through_all_roles(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A question asked and answered, a tool called, an answer given, labelled, compared.

    An open question is counted, also by a process that took it over, until its reply comes. A
    person who takes over is left alone, and one who hands back is followed by decisions.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        roles = [await on.start(name, ready=False) for name in ROLES]
        for role in roles:
            await on.owned(role)
        named = {role.name: role for role in roles}
        key = on.key_on(1, "customer")
        where = {"topic": TURNS, "partition": "1"}
        asked_at = now_ms()
        traced = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        first = await on.send(turn(key, "Where is my order?", turn_id="t-1"), headers=[traced])
        (ask,) = await published(on, ActionEvent, 1, of=key, roles=roles)

        assert {
            "action": "ask",
            "tool": None,
            "missing_field": "order_id",
            "reason_code": "missing_input",
        } == ask.decision.model_dump()
        assert (on.topic(TURNS), *first) == tuple(ask.source.model_dump().values())
        assert 1 == await named["decide"].sample("pending_questions", **where)
        oldest = await named["decide"].sample("oldest_pending_question_timestamp_seconds", **where)
        assert asked_at / 1000 <= oldest <= now_ms() / 1000

        # Another process takes the question over, from the table.
        assert 0 == await named["decide"].stopped()
        roles[0] = named["decide"] = await on.start("decide")

        assert 1 == await named["decide"].sample("pending_questions", **where)
        assert 1 == await named["decide"].sample("pending_questions")
        assert oldest == await named["decide"].sample(
            "oldest_pending_question_timestamp_seconds", **where
        )

        await on.send(turn(key, "A-1", turn_id="t-2", reply_to_question_id=ask.action_id))
        messages = await published(on, OutboundMessage, 2, of=key, roles=roles)
        actions = await published(on, ActionEvent, 3, of=key, roles=roles)
        (result,) = await published(on, ToolResult, 1, of=key, roles=roles)
        (answer,) = await published(on, Answer, 1, of=key, roles=roles)

        assert ["ask", "call_tool", "answer"] == [one.decision.action for one in actions]
        assert [1, 2, 3] == [one.step for one in actions]
        assert sorted({one.sequence for one in actions}) == [one.sequence for one in actions]
        assert ("done", '{"status":"shipped as A-1"}') == (result.outcome, result.result_json)
        assert actions[1].action_id == result.action_id
        assert ("Order A-1 is shipped as A-1.", None) == (answer.text, answer.failure)
        assert ["Which order?", "Order A-1 is shipped as A-1."] == [one.text for one in messages]
        assert [actions[0].action_id, actions[2].action_id] == [one.message_id for one in messages]
        assert 0 == await named["decide"].sample("pending_questions")

        labels = await published(on, Label, 2, of=key, roles=roles)
        proposals = await published(on, ShadowProposal, 3, of=key, roles=roles)
        comparisons = await published(on, ShadowComparison, 3, of=key, roles=roles)

        assert {"t-1"} == {one.exchange_id for one in labels}
        assert ["ask", "call_tool", "answer"] == [one.decision.action for one in proposals]
        assert ["same"] * 3 == [one.verdict for one in comparisons]
        assert [one.action_id for one in actions] == [one.live_id for one in comparisons]
        assert [None, True, None] == [one.arguments_equal for one in comparisons]
        assert 3 == await named["shadow"].sample("shadow_comparisons_total", verdict="same")
        assert 1 == await named["execute"].sample("tool_calls_total", outcome="done")

        await obeyed(on, control(key, "take_over"), named["decide"])
        await on.send(turn(key, "Hello?", turn_id="t-3"))
        (held,) = await published(on, Outcome, 1, of=key, roles=roles)

        assert ("held_by_person", "t-3") == (held.outcome, held.turn_id)

        await obeyed(on, control(key, "hand_back"), named["decide"])
        await on.send(turn(key, "When do you open?", turn_id="t-4"))
        actions = await published(on, ActionEvent, 4, of=key, roles=roles)
        comparisons = await published(on, ShadowComparison, 4, of=key, roles=roles)
        labels = await published(on, Label, 3, of=key, roles=roles)

        assert ("answer", "hours") == (
            actions[3].decision.action,
            actions[3].answer.answer_id if actions[3].answer else None,
        )
        assert ["same"] * 4 == [one.verdict for one in comparisons]
        assert "t-4" == labels[-1].exchange_id

        for record in await on.read("conversation.actions"):
            headers = dict(record.headers)
            assert b"1.0" == headers["ce_specversion"]
            assert b"turnstream.ActionEvent" == headers["ce_type"]
            assert (record.offset == 0) == (traced[1] == headers.get("traceparent"))

        assert dict.fromkeys(ROLES, 0) == await on.stop_all()
        assert [] == await on.letters()
