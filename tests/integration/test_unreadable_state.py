"""State that no version here can read: the role starts, and just those conversations end."""

from pathlib import Path

from tests.integration.deployed import deployed, turn, until
from turnstream.core.conversation import RECORD_VERSION
from turnstream.core.events import Timer
from turnstream.core.publications import ActionEvent

TURNS = "conversation.turns"


async def test_conversations_with_unreadable_state_go_to_a_person(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """An older version's record and junk are errors of their conversations, never of the start.

    A newer version's record is left alone with its turn; whoever else writes is answered.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        stored = {
            on.key_on(0, "old"): b'{"record_version":0,"secret":"in the record"}',
            on.key_on(1, "junk"): b"\x00 no record",
            on.key_on(2, "newer"): b'{"record_version":%d}' % (RECORD_VERSION + 1),
        }
        changelog = on.settings.changelog("decide")
        for key, value in stored.items():
            await on.producer.send_and_wait(
                changelog, value, key=key.encode(), partition=on.partition(key)
            )
        old, junk, newer = stored
        fine = on.key_on(3, "fine")

        decide = await on.start("decide")

        assert 2 == await decide.sample("unreadable_conversations")
        assert 1 == await decide.sample("parked_conversations")
        for key, found in ((old, "version found: 0"), (junk, "version found: none")):
            (line,) = [one for one in decide.text().splitlines() if key in one]
            assert found in line
            assert f"version known: {RECORD_VERSION}" in line
            assert "partition" in line

        sent = {
            key: await on.send(turn(key, "Hello", turn_id="t-1"))
            for key in (old, junk, newer, fine)
        }
        await on.send(turn(old, "Hello?", turn_id="t-2"))

        async def all_decided() -> bool:
            return {old, junk, fine} <= {
                one.conversation_id for one in await on.events(ActionEvent)
            } and not await decide.sample("unreadable_conversations")

        await until(all_decided, decide.text)

        causes = {
            one.conversation_id: one.handoff.cause if one.handoff is not None else "none"
            for one in await on.events(ActionEvent)
        }
        assert {old: "dead_letter", junk: "dead_letter", fine: "none"} == causes
        letters = {(one.partition, one.offset): one.reason for one in await on.letters()}
        assert {sent[old]: "state_unreadable", sent[junk]: "state_unreadable"} == letters
        assert 2 == await decide.sample("dead_letters_total", reason="state_unreadable")
        assert "in the record" not in decide.text()
        assert {"decide": 0} == await on.stop_all()

        again = await on.start("decide")
        assert 0 == await again.sample("unreadable_conversations")
        assert 1 == await again.sample("parked_conversations")


async def test_a_parked_conversation_holds_back_nobody_elses_timers(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Its turn waits for a newer version; beside it, in its partition, time goes on."""
    decide_settings = {"conversation_ttl_seconds": 1}
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, decide=decide_settings) as on:
        newer, beside = on.key_on(0, "newer"), on.key_on(0, "beside")
        await on.producer.send_and_wait(
            on.settings.changelog("decide"),
            b'{"record_version":%d}' % (RECORD_VERSION + 1),
            key=newer.encode(),
            partition=0,
        )
        decide = await on.start("decide")
        for key in (newer, beside):
            await on.send(turn(key, "Hello", turn_id="t-1"))

        async def fired() -> bool:
            return bool(await on.events(Timer))

        await until(fired, decide.text)

        assert {(beside, "conversation_close")} == {
            (one.conversation_id, one.kind) for one in await on.events(Timer)
        }
        assert {beside} == {one.conversation_id for one in await on.events(ActionEvent)}
        assert 1 == await decide.sample("parked_conversations")
