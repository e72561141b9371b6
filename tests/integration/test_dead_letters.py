"""Dead letters are replayed once, with the ids of the record that they were, or discarded.

Real processes and commands on a real broker.
"""

import io
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.structs import ConsumerRecord
from rich.console import Console

from tests import small_shop
from tests.integration.deployed import (
    Deployed,
    command,
    deployed,
    now_ms,
    turn,
    until,
    written,
)
from turnstream.cli.letter_sheet import show
from turnstream.cli.letter_work import Work
from turnstream.config import Settings, load_settings
from turnstream.core.events import Answer, ConversationControl, Label, Source
from turnstream.core.identity import action_id
from turnstream.core.publications import ActionEvent, Outcome
from turnstream.demo.stack import _touch_topics as touch_topics
from turnstream.stream import Record
from turnstream.stream.deadletter import DeadLetterTopic, Place, dead_record, given_up_before
from turnstream.stream.letter_box import LetterBox
from turnstream.stream.letter_desk import LetterDesk
from turnstream.stream.letter_post import LetterRefused
from turnstream.stream.letters import Letter, Selection

TURNS = "conversation.turns"
SECRET = "my card is SENTINEL-4929"


async def dlq(on: Deployed, *arguments: str, status: int = 0) -> str:
    """Run a command that has to end with a status; its standard output."""
    code, output, errors = await command("dlq", *arguments, "-c", str(on.config))

    assert status == code, (output, errors)
    assert "Traceback" not in errors
    return output


async def listed(on: Deployed, *arguments: str) -> list[dict[str, Any]]:
    """The letters that the list names."""
    letters: list[dict[str, Any]] = json.loads(await dlq(on, "list", "--json", *arguments))
    return letters


async def audit(on: Deployed) -> list[dict[str, Any]]:
    """What the audit topic holds."""
    records = await on.read("turnstream.audit", partitions=1)
    return [json.loads(record.value or b"") for record in records]


async def actions_of(on: Deployed, key: str) -> list[ActionEvent]:
    """The actions of a conversation, in order."""
    found = [one for one in await on.events(ActionEvent) if one.conversation_id == key]
    return sorted(found, key=lambda one: one.sequence)


async def letters_are_there(on: Deployed, count: int, explain: Any) -> None:
    """Wait for dead letters."""

    async def there() -> bool:
        return len(await on.letters()) == count

    await until(there, explain)


def with_channel(name: str) -> str:
    """The catalog, with one channel more."""
    channels = small_shop.CATALOG["channels"] | {name: {"type": "webchat"}}
    return yaml.safe_dump(small_shop.CATALOG | {"channels": channels}, sort_keys=False)


def named(letters: Sequence[dict[str, Any]]) -> list[str]:
    """Names of letters."""
    return [one["letter"] for one in letters]


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_a_letter_is_replayed_once_after_the_fault_is_mended(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A channel is added to the catalog; then the turns are decided, in order and under their ids.

    What nobody can mend fails once more and still names the first record. A second replay does
    nothing. Every action is in the audit, and no customer's word is.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        decide = await on.start("decide")
        key, bad = on.key_on(0, "pigeon"), on.key_on(1, "bad")
        first = await on.send(turn(key, SECRET, turn_id="p-1", channel_id="pigeon"))
        second = await on.send(turn(key, "Hello again", turn_id="p-2", channel_id="pigeon"))
        broken = await on.raw(b"not an event, " + SECRET.encode(), key=bad.encode(), partition=1)
        await letters_are_there(on, 3, decide.text)
        (handoff,) = await actions_of(on, key)

        letters = await listed(on)
        assert {first, second, broken} == {(one["partition"], one["offset"]) for one in letters}
        assert {on.topic(TURNS)} == {one["topic"] for one in letters}
        assert ["malformed", "unsupported", "unsupported"] == sorted(
            one["reason"] for one in letters
        )
        filters = ("--reason", "malformed", "--topic", TURNS, "--since", "1h")
        assert [bad] == [one["key"] for one in await listed(on, *filters)]

        name = next(one["letter"] for one in letters if (one["partition"], one["offset"]) == first)
        garbage = next(one["letter"] for one in letters if one["reason"] == "malformed")
        assert "SENTINEL" not in await dlq(on, "show", garbage)
        sheet = json.loads(shown := await dlq(on, "show", name, "--json"))
        assert "SENTINEL" not in shown
        assert ("p-1", "pigeon", key) == (
            sheet["event"]["turn_id"],
            sheet["event"]["channel_id"],
            sheet["event"]["conversation_id"],
        )
        revealed = json.loads(
            await dlq(on, "show", name, "--json", "--reveal", "--actor", "ann", "--because", "7")
        )
        assert SECRET == revealed["event"]["text"]

        # Nothing happens without a filter, a confirmation, or with a dry run.
        await dlq(on, "replay", "--all", status=2)
        await dlq(on, "replay", "--all", "--dry-run")

        # The person who was told gives the conversation back, and the catalog gets its channel.
        assert {"decide": 0} == await on.stop_all()
        await on.send(
            ConversationControl(
                control_id="c-1",
                conversation_id=key,
                kind="hand_back",
                actor="ann",
                occurred_at=now_ms(),
            )
        )
        (tmp_path / "catalog.yaml").write_text(with_channel("pigeon"))
        again = await on.start("decide")
        told = await dlq(on, "replay", "--all", "--yes", "--actor", "ann", "--because", "mended")
        assert "3 replayed\n" == told

        async def decided() -> bool:
            actions = await actions_of(on, key)
            outcomes = [one for one in await on.events(Outcome) if one.conversation_id == key]
            return len(actions) + len(outcomes) == 3

        await until(decided, again.text)
        await letters_are_there(on, 4, again.text)
        actions = await actions_of(on, key)
        outcomes = [one for one in await on.events(Outcome) if one.conversation_id == key]
        origin = Source(topic=on.topic(TURNS), partition=first[0], offset=first[1])

        assert ("dead_letter", origin) == (
            handoff.handoff and handoff.handoff.cause,
            handoff.source,
        )
        assert [handoff.action_id, action_id(key, origin, 1)] == [one.action_id for one in actions]
        assert ("answer", origin) == (actions[1].decision.action, actions[1].source)
        # The second came while the answer to the first was on its way.
        assert [("buffered", second)] == [
            (one.outcome, (one.source.partition, one.source.offset)) for one in outcomes
        ]

        (left,) = await listed(on)
        assert (bad, "malformed", 1) == (left["key"], left["reason"], left["replays"])
        assert f"{on.topic(TURNS)}/{broken[0]}/{broken[1]}" == left["origin"]
        replayed = next(
            one
            for one in await on.read(TURNS)
            if (one.partition, one.offset) == (left["partition"], left["offset"])
        )
        assert b"not an event, " + SECRET.encode() == replayed.value
        assert 0 == given_up_before(replayed.headers)

        assert "" == await dlq(on, "replay", *named(letters), "--yes")
        assert 6 == len(await on.read(TURNS))
        assert "1 discarded\n" == await dlq(
            on, "discard", "--all", "--yes", "--actor", "ben", "--because", "noise"
        )
        assert "" == await dlq(on, "replay", "--all", "--yes")
        states = [one["state"] for one in await listed(on, "--handled")]
        assert ["discarded", "replayed", "replayed", "replayed"] == sorted(states)

        noted = await audit(on)
        assert [
            ("revealed", "ann", "7"),
            *[("replayed", "ann", "mended")] * 3,
            ("discarded", "ben", "noise"),
        ] == [(one["action"], one["actor"], one["because"]) for one in noted]
        assert sorted(named(letters)) == sorted(
            one["letter"] for one in noted if one["action"] == "replayed"
        )
        assert "SENTINEL" not in json.dumps(noted)
        assert key not in json.dumps(noted)


@asynccontextmanager
async def desk(on: Deployed, actor: str) -> AsyncIterator[tuple[LetterDesk, list[Letter]]]:
    """A person at work, and the letters that there are."""
    async with LetterBox(on.settings) as box:
        letters = await box.letters(keep=lambda _: True)
        work = LetterDesk(on.settings, box, actor=actor, because=None, now_ms=now_ms, max_replays=2)
        async with work:
            yield work, letters


async def put_aside(on: Deployed, key: str, offset: int, **changes: Any) -> None:
    """Write the letter of a record that was on another partition than its key belongs to."""
    record = ConsumerRecord(
        topic=on.topic(TURNS),
        partition=3 - on.partition(key),
        offset=offset,
        timestamp=now_ms(),
        timestamp_type=0,
        key=key.encode(),
        value=f"turn {offset}".encode(),
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        headers=(("trace", None), ("tenant", b"a")),
    )
    topic = DeadLetterTopic(on.topic(f"{TURNS}.dlq"), partitions=1, max_bytes=1_000_000)
    letter = dead_record(
        replace(record, **changes),
        topic=topic,
        role="decide",
        stage="intake",
        reason="wrong_partition",
        detail="",
        attempts=1,
    )
    await on.raw(
        letter.value, key=letter.key, partition=0, topic=f"{TURNS}.dlq", headers=letter.headers
    )


async def put_aside_by(on: Deployed, role: str, record: Record, *, logical: str) -> None:
    """Write the letter of a record that one role gave up while handling it."""
    letter = dead_record(
        record,
        topic=DeadLetterTopic(on.topic(f"{logical}.dlq"), partitions=1, max_bytes=1_000_000),
        role=role,
        stage="handling",
        reason="handler_failed",
        detail="",
        attempts=3,
    )
    await on.raw(
        letter.value, key=letter.key, partition=0, topic=f"{logical}.dlq", headers=letter.headers
    )


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_what_one_role_gave_up_is_given_to_no_other_again(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A turn, an action, a command that classify alone had not handled are replayed.

    The turn is decided once and its ending gets the label that it had waited for; the answer is
    sent once; the command is obeyed once.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        lost, served, held = on.key_on(0, "lost"), on.key_on(1, "served"), on.key_on(2, "held")
        changelog = on.settings.changelog("classify")
        await on.producer.send_and_wait(changelog, b"no state", key=lost.encode(), partition=0)
        classify = await on.start("classify")
        await on.send(turn(lost, "Where is my order?", turn_id="t-1"))
        await letters_are_there(on, 1, classify.text)
        (letter,) = await on.letters()
        decide, answer = await on.start("decide"), await on.start("answer")
        for key in (served, held):
            await on.send(turn(key, "When do you open?", turn_id="t-1"))

        async def all_answered() -> bool:
            return {served, held} == {one.conversation_id for one in await on.events(Answer)}

        await until(all_answered, answer.text)
        for kind in ("take_over", "hand_back"):
            await on.send(
                ConversationControl(
                    control_id=kind,
                    conversation_id=held,
                    kind=kind,
                    actor="ann",
                    occurred_at=now_ms(),
                )
            )
        control = "conversation.control"

        async def obeyed() -> bool:
            return await decide.sample("records_handled_total", topic=control) == 2

        await until(obeyed, decide.text)
        actions = await on.read("conversation.actions")
        action = next(one for one in actions if one.key == served.encode())
        commands = await on.read(control)
        await put_aside_by(on, "classify", action, logical="conversation.actions")
        await put_aside_by(on, "classify", commands[0], logical=control)
        before = len(await on.read("conversation.outbound"))

        assert ("classify", "handling", "state_unreadable") == (
            letter.headers["turnstream.error.role"].decode(),
            letter.headers["turnstream.error.stage"].decode(),
            letter.reason,
        )
        assert [lost] == [
            one.conversation_id
            for one in await on.events(ActionEvent)
            if one.decision.action == "ask"
        ]
        assert lost not in {one.conversation_id for one in await on.events(Label)}
        assert "3 replayed\n" == await dlq(on, "replay", "--all", "--yes", "--because", "mended")

        async def passed_over() -> bool:
            return (
                await decide.sample("records_skipped_total", topic=TURNS) == 1
                and await decide.sample("records_skipped_total", topic=control) == 1
                and await answer.sample("records_skipped_total") == 1
                and lost in {one.conversation_id for one in await on.events(Label)}
            )

        await until(passed_over, decide.text)
        await on.send(turn(held, "And when do you close?", turn_id="t-2"))

        async def answered_again() -> bool:
            ended: list[Answer | Label] = [*await on.events(Answer), *await on.events(Label)]
            # The turn that comes last: what a role sent twice would be there before its end.
            return sum(one.conversation_id == held for one in ended) == 4

        await until(answered_again, answer.text)

        assert [] == await on.events(Outcome)
        assert 1 == len(await actions_of(on, lost))
        assert 2 == len(await actions_of(on, held))
        assert before + 1 == len(await on.read("conversation.outbound"))
        assert [1, 1, 2] == [
            sum(one.conversation_id == key for one in await on.events(Label))
            for key in (lost, served, held)
        ]
        assert {"classify"} == {one["sent_for"] for one in await audit(on)}
        assert 3 == len(await on.letters()) + len(await on.letters(control)) + len(
            await on.letters("conversation.actions")
        )


@pytest.mark.parametrize("name", ["kafka_bootstrap", "embedded_bootstrap"])
async def test_a_cluster_without_dead_letter_topics_is_not_one_without_letters(
    name: str, request: pytest.FixtureRequest, topic_prefix: str, tmp_path: Path
) -> None:
    """A wrong prefix must not look like good news."""
    config = written(tmp_path, request.getfixturevalue(name), topic_prefix)
    status, _, errors = await command("dlq", "show", "typo.dlq/0/0", "-c", str(config))

    assert 2 == status
    assert "has no dead-letter topic" in errors
    assert f"is topics.prefix ({topic_prefix!r}) right? `turnstream topics apply`" in errors
    assert "Traceback" not in errors


async def nothing_is_there(settings: Settings) -> None:
    """Ask for letters that there are not: each in a connection that is closed at once."""
    turns = settings.topics.name(TURNS)
    for letter, told in (
        ("typo.dlq/0/0", "'typo.dlq' is none of the dead-letter topics: "),
        (f"{turns}/0/0", f"{turns!r} is none of the dead-letter topics: "),
        (f"{turns}.dlq/99/0", f"{turns + '.dlq'!r} has the partitions 0 to "),
        (f"{turns}.dlq/0/0", "its partition holds none"),
    ):
        place, said = Place.parse(letter), Console(file=io.StringIO(), width=500)
        shown = await show(
            settings,
            place,
            reveal=False,
            actor="",
            because=None,
            as_json=False,
            output=said,
            errors=said,
        )
        work = Work(
            settings, actor="ann", because="x", output=said, errors=said, confirm=lambda _: False
        )
        wanted = Selection(places=frozenset({place}))
        statuses = (
            await work.replay(wanted, dry_run=False),
            await work.discard(wanted, dry_run=False),
        )
        assert isinstance(said.file, io.StringIO)
        lines = said.file.getvalue().splitlines()

        assert (False, 1, 1) == (shown, *statuses)
        assert ["nothing to replay", "nothing to discard"] == [lines[2], lines[4]]
        for line in (lines[0], lines[1], lines[3]):
            assert line.startswith(f"there is no letter {letter}: {told}")


async def test_letters_that_there_are_not_are_told_from_those_that_cannot_be_read(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Topic, partition or offset: the message says which is wrong, and what there is."""
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        await nothing_is_there(on.settings)


async def test_the_embedded_brokers_letters_are_read_and_acted_on(
    embedded_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """As the demo leaves it: with its topics and wrong checksums."""
    kafka = {"bootstrap_servers": embedded_bootstrap, "check_crcs": False}
    config = written(tmp_path, embedded_bootstrap, topic_prefix, kafka=kafka)
    settings = load_settings(config)
    await touch_topics(settings)
    turns = settings.topics.name(TURNS)
    await nothing_is_there(settings)
    record = ConsumerRecord(turns, 0, 5, now_ms(), 0, b"c-1", b"turn 5", None, 0, 0, ())
    topic = DeadLetterTopic(f"{turns}.dlq", partitions=1, max_bytes=1_000_000)
    dead = dead_record(
        record,
        topic=topic,
        role="decide",
        stage="handling",
        reason="handler_failed",
        detail="",
        attempts=3,
    )
    async with AIOKafkaProducer(bootstrap_servers=embedded_bootstrap) as producer:
        for _ in range(2):
            await producer.send_and_wait(
                topic.name, dead.value, key=dead.key, partition=0, headers=list(dead.headers)
            )
    async with LetterBox(settings) as box:
        absence = await box.absence(Place(topic.name, 0, 77))
    given = ("--yes", "--because", "a test", "-c", str(config))
    replayed = await command("dlq", "replay", f"{turns}.dlq/0/0", *given)
    discarded = await command("dlq", "discard", f"{turns}.dlq/0/1", *given)
    listed = await command("dlq", "list", "-c", str(config))

    assert "its partition holds the offsets 0 to 1" == absence
    assert (0, "1 replayed\n") == replayed[:2]
    assert (0, "1 discarded\n") == discarded[:2]
    assert (0, "", "no letters\n") == listed


async def test_two_people_replay_at_the_same_time(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """The one who began last acts; every record is there once, in its order, where it belongs."""
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        key = on.key_on(1)
        for offset in (12, 10, 14, 11, 13):
            await put_aside(on, key, offset)
        await put_aside(on, key, 9, topic="turnstream.audit")
        async with desk(on, "ann") as (ann, hers), desk(on, "ben") as (ben, his):
            with pytest.raises(LetterRefused, match="another"):
                await ann.replay(hers)
            result = await ben.replay(his)
            once_more = await ben.replay(his)
        records = await on.read(TURNS)

        assert (5, 1) == (len(result.done), len(result.left))
        assert "no topic of this deployment's events" in result.left[0][1]
        assert (0, 5) == (len(once_more.done), len(once_more.already))
        assert [f"turn {n}".encode() for n in range(10, 15)] == [one.value for one in records]
        assert {(key.encode(), 1)} == {(one.key, one.partition) for one in records}
        assert [
            ("trace", None),
            ("tenant", b"a"),
            ("turnstream.origin.topic", on.topic(TURNS).encode()),
            ("turnstream.origin.partition", b"2"),
            ("turnstream.origin.offset", b"10"),
            ("turnstream.origin.replays", b"1"),
            ("turnstream.origin.given_up", b"0"),
        ] == list(records[0].headers)
        assert ["ben"] * 5 == [one["actor"] for one in await audit(on)]


async def test_a_record_that_was_too_large_to_keep_is_read_where_it_is(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Its letter is a pointer: as long as the record is in its topic, it can be replayed."""
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        key = on.key_on(1)
        large = b"x" * 700_000
        _, offset = await on.raw(large, key=key.encode(), partition=1)
        (there,) = await on.read(TURNS)
        wide = ((f"h-{n}", b"y" * 200_000) for n in range(2))
        given = {"partition": 1, "value": large, "headers": tuple(wide)}
        at = there.timestamp
        await put_aside(on, key, offset, timestamp=at, **given)
        await put_aside(on, key, offset + 1, timestamp=at, **given)
        # Those of a topic that was there before: now others' records are in their places.
        await put_aside(on, key, offset, timestamp=at - 1, **given)
        await put_aside(on, "another", offset, timestamp=at, **given)
        async with desk(on, "ann") as (ann, letters):
            result = await ann.replay(letters)
        records = await on.read(TURNS)
        other = await dlq(on, "show", str(letters[3].place), "--json", "--reveal")

        assert [True] * 4 == [one.pointer for one in letters]
        assert [letters[0]] == result.done
        assert ["not there"] * 3 == [why[14:23] for _, why in result.left]
        assert [large, large] == [one.value for one in records]
        assert f"not in {letters[3].source} any more" in json.loads(other)["fault"]
        assert "xxx" not in other


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_what_the_broker_takes_only_compressed_is_replayed_so_and_not_for_ever(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Its letters are pointers, and still name the first record and count the replays.

    Beside it stands one that with the headers of a replay is too large in any form: it alone is
    left, by name, and what comes after it in its partition goes on.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        decide = await on.start("decide")
        key, full = on.key_on(0, "wide"), on.key_on(1, "full")
        wide = on.codec.encode(turn(key, "so " * 700_000, turn_id="w-1"))
        async with AIOKafkaProducer(
            bootstrap_servers=kafka_bootstrap,
            compression_type="gzip",
            max_request_size=4_000_000,
        ) as gateway:
            sent = await gateway.send_and_wait(on.topic(TURNS), wide, key=key.encode(), partition=0)
        noise = random.Random(7).randbytes(1_048_400)
        await on.raw(noise, key=full.encode(), partition=1)
        await on.raw(b"not an event", key=full.encode(), partition=1)
        await letters_are_there(on, 3, decide.text)
        origin = f"{on.topic(TURNS)}/0/{sent.offset}"

        assert "2 replayed, 1 left as they are\n" == await dlq(
            on, "replay", "--all", "--yes", status=1
        )
        await letters_are_there(on, 5, decide.text)
        (again,) = [one for one in await listed(on) if one["key"] == key]
        assert "1 replayed\n" == await dlq(on, "replay", again["letter"], "--yes")
        await letters_are_there(on, 6, decide.text)
        (third,) = [one for one in await listed(on) if one["key"] == key]
        assert [(origin, 1, True, "oversized"), (origin, 2, True, "oversized")] == [
            (one["origin"], one["replays"], one["pointer"], one["reason"]) for one in (again, third)
        ]
        assert [wide] * 3 == [one.value for one in await on.read(TURNS) if one.partition == 0]

        code, output, errors = await command(
            "dlq", "replay", "--all", "--yes", "--max-replays", "2", "-c", str(on.config)
        )
        (left,) = [one for one in await listed(on) if one["replays"] == 0]
        assert (1, "1 replayed, 2 left as they are\n") == (code, output)
        assert f"{third['letter']}: left as it is: it was replayed 2 times already" in errors
        assert f"{left['letter']}: left as it is: the broker does not take its record" in errors
        assert "raise max.message.bytes of that topic" in errors
        assert 4 == sum(one["action"] == "replayed" for one in await audit(on))
