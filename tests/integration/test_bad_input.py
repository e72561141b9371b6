"""Whatever arrives: the partition goes on, the record is kept with its reason, nobody is forgotten.

Real processes on a real broker.
"""

import json
from collections import Counter
from pathlib import Path

from tests.integration.deployed import Deployed, deployed, now_ms, turn, until
from turnstream.core.events import ConversationTurn, LiveAction
from turnstream.core.publications import ActionEvent, Outcome
from turnstream.roles.run import ROLES
from turnstream.stream.contracts import newest, read_schema

TURNS = "conversation.turns"
LIMIT = 262_144


async def send_bad_records(on: Deployed) -> dict[tuple[int, int], tuple[str, bytes | None]]:
    """Write one of each kind, good turns between them; place to reason and bytes."""
    expected: dict[tuple[int, int], tuple[str, bytes | None]] = {}
    key = on.key_on(0, "bad")
    good = on.codec.encode(turn(key, "Hello", turn_id="t-bad"))
    here = {"key": key.encode(), "partition": 0}
    values: list[tuple[bytes | None, str]] = [
        (b"not json", "malformed"),
        (bytes.fromhex("ff fe 00"), "malformed"),
        (b"", "malformed"),
        (b"[]", "malformed"),
        (b'{"schema":"unknown","v":9}', "malformed"),
        (bytes.fromhex("000000002a7b226964223a317d"), "malformed"),
        (bytes.fromhex("7b226964223a317d"), "malformed"),
        (bytes.fromhex("0000"), "malformed"),
        (b"\x00", "malformed"),
        (b"\xc3\x01", "malformed"),
        (good[:-7], "malformed"),
        (good + b"\x00", "malformed"),
        (on.codec.encode(turn(key, "x" * LIMIT, turn_id="t-large")), "oversized"),
        (None, "missing_value"),
        (invalid_by_the_model(on, key), "invalid"),
    ]
    for value, reason in values:
        expected[await on.raw(value, **here)] = reason, value  # type: ignore[arg-type]
    expected[await on.raw(good, key=None, partition=1)] = "missing_key", good
    expected[await on.raw(good, key=b"", partition=1)] = "missing_key", good
    other = on.key_on(2, "other").encode()
    expected[await on.raw(good, key=other, partition=2)] = "wrong_partition", good
    expected[await on.raw(good, key=key.encode(), partition=3)] = "wrong_partition", good
    channel = on.codec.encode(turn(key, "Hello", turn_id="t-channel", channel_id="carrier-pigeon"))
    expected[await on.raw(channel, **here)] = "unsupported", channel  # type: ignore[arg-type]
    return expected


def invalid_by_the_model(on: Deployed, key: str) -> bytes:
    """A turn that decodes and is none: its time is before the epoch."""
    valid = turn(key, "Hello", turn_id="t-invalid")
    return on.codec.encode(valid.model_copy(update={"occurred_at": -5}))


async def send_good_turns(on: Deployed, stem: str, count: int = 4) -> list[tuple[int, int]]:
    """Write some turns on every partition."""
    return [
        await on.send(turn(on.key_on(partition, f"{stem}{n}"), "Hello", turn_id=f"{stem}-{n}"))
        for partition in range(4)
        for n in range(count)
    ]


async def decided(on: Deployed) -> Counter[tuple[int, int]]:
    """How often each record of the turns was decided about."""
    actions = await on.events(ActionEvent)
    return Counter(
        (one.source.partition, one.source.offset)
        for one in actions
        if one.source.topic == on.topic(TURNS)
    )


async def test_bad_records_are_kept_once_and_good_turns_decided_once(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Each bad record is in the dead letters once, untouched; each good turn is decided once.

    However many roles read the topic, and however often they start.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        before = await send_good_turns(on, "before")
        expected = await send_bad_records(on)
        headers = [("trace", None), ("tenant", b"a"), ("tenant", b"b"), ("id", b"\xff\x00\xfe")]
        odd_headers = await on.send(
            turn(on.key_on(0, "headers"), "Hello", turn_id="h"),
            headers=headers,
        )
        after = await send_good_turns(on, "after")
        decide = await on.start("decide")
        classify = await on.start("classify")
        good = {*before, odd_headers, *after}

        async def all_decided() -> bool:
            return good <= (await decided(on)).keys()

        async def all_read() -> bool:
            handled = await classify.sample("records_handled_total", topic=TURNS)
            return handled == len(good) + len(expected)

        await until(all_decided, decide.text)
        await until(all_read, classify.text)
        letters = await on.letters()
        found = {(one.partition, one.offset): (one.reason, one.value) for one in letters}

        assert len(expected) == len(letters)
        assert expected == found
        # The unknown channel's turn could be read: its conversation goes to a person.
        channel = next(place for place, (reason, _) in expected.items() if reason == "unsupported")
        assert dict.fromkeys((*good, channel), 1) == await decided(on)

        reasons = Counter(reason for reason, _ in expected.values())
        for reason, count in reasons.items():
            name = "dead_letters_total"
            assert count == await decide.sample(name, topic=TURNS, reason=reason), reason
            assert 0 == await classify.sample(name, reason=reason)

        assert {"decide": 0, "classify": 0} == await on.stop_all()

        again = await on.start("decide")
        more = await send_good_turns(on, "more", 1)

        async def more_decided() -> bool:
            return set(more) <= (await decided(on)).keys()

        await until(more_decided, again.text)
        assert dict.fromkeys((*good, channel, *more), 1) == await decided(on)
        assert len(expected) == len(await on.letters())
        assert 0 == await again.sample("dead_letters_total")


async def test_a_defect_a_repetition_and_an_unknown_schema(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A turn that nothing can handle is given up after its attempts, and a person gets to know.

    A repeated turn is not decided again; under the same id with another content it is put aside.
    A writer's newer schema holds its partition until it is known.
    """
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        decide = await on.start("decide")
        broken, fine = on.key_on(0, "broken"), on.key_on(0, "fine")
        bug = turn(broken, "please explode SENTINEL-IN-TEXT", turn_id="SENTINEL-IN-ID")
        failed = await on.send(bug)
        other = await on.send(turn(fine, "Hello", turn_id="t-1"))

        repeated = turn(on.key_on(1, "again"), "Hello", turn_id="t-1")
        await on.send(repeated)
        twice = await on.send(repeated)
        changed = await on.send(repeated.model_copy(update={"text": "Something else"}))

        async def letters_there() -> bool:
            return len(await on.letters()) == 2

        await until(letters_there, decide.text)
        letters = {(one.partition, one.offset): one for one in await on.letters()}
        actions = await on.events(ActionEvent)
        handoffs = {
            (one.source.partition, one.source.offset): one.handoff.cause
            for one in actions
            if one.handoff is not None
        }
        outcomes = await on.events(Outcome)

        assert {failed, changed} == letters.keys()
        assert ("handler_failed", 3) == (letters[failed].reason, letters[failed].attempts)
        assert on.codec.encode(bug) == letters[failed].value
        assert ("content_mismatch", 1) == (letters[changed].reason, letters[changed].attempts)
        assert {failed: "dead_letter", changed: "dead_letter"} == handoffs
        assert [("duplicate_turn", twice)] == [
            (one.outcome, (one.source.partition, one.source.offset)) for one in outcomes
        ]
        assert other in await decided(on)
        assert 2 == await decide.sample("handler_retries_total")
        assert None is decide.process.returncode

        # A newer writer: one field more, and a schema that nobody here has.
        schema, fingerprint, value = a_newer_turn(on, on.key_on(2, "newer"))
        newer = await on.raw(value, key=on.key_on(2, "newer").encode(), partition=2)
        behind = await on.send(turn(on.key_on(2, "behind"), "Hello", turn_id="t-1"))
        beside = await on.send(turn(on.key_on(3, "beside"), "Hello", turn_id="t-1"))

        async def held() -> bool:
            return await decide.sample("partition_held", topic=TURNS, partition="2") == 1

        async def beside_decided() -> bool:
            return beside in await decided(on)

        async def newer_decided() -> bool:
            return {newer, behind} <= (await decided(on)).keys()

        await until(held, decide.text)
        await until(beside_decided, decide.text)
        assert set() == {newer, behind} & (await decided(on)).keys()

        await on.producer.send_and_wait(
            on.topic("turnstream.schemas"), schema.encode(), key=fingerprint.encode()
        )
        await until(newer_decided, decide.text)
        assert 0 == await decide.sample("partition_held", topic=TURNS, partition="2")
        assert 2 == len(await on.letters())

        # Nothing that a customer or a client wrote is in logs or metrics.
        exposition, log = await decide.exposition(), decide.text()
        assert "SENTINEL" not in exposition
        assert "SENTINEL" not in log
        assert 0 == await decide.stopped()


def a_newer_turn(on: Deployed, key: str) -> tuple[str, str, bytes]:
    """A turn by a writer whose schema has one more field; schema, fingerprint, value."""
    definition = json.loads(newest(TURNS).text)
    definition["fields"].append({"name": "mood", "type": ["null", "string"], "default": None})
    schema = json.dumps(definition)
    fingerprint = read_schema(schema).fingerprint
    body = on.codec.encode(turn(key, "Hello", turn_id="t-1"))[10:]
    return schema, fingerprint, b"\xc3\x01" + bytes.fromhex(fingerprint) + body + b"\x00"


SENTINELS = {
    "turn_id": "SENTINEL-turn-id",
    "text": "please explode SENTINEL-text",
    "locale": "SENTINEL-locale",
    "actor_id": "SENTINEL-actor",
    "tenant_id": "SENTINEL-tenant",
    "session_claims": {
        "subject_id": "SENTINEL-subject",
        "permissions": ["SENTINEL-permission"],
        "values": {"SENTINEL-claim": "SENTINEL-claimed"},
    },
    "selected_record": {"kind": "SENTINEL-kind", "values": {"order_id": "SENTINEL-record"}},
    "reply_to_question_id": "SENTINEL-question",
    "passages": [{"passage_id": "SENTINEL-passage", "text": "SENTINEL-passage-text"}],
}


def hostile(conversation_id: str, **changes: str) -> ConversationTurn:
    """A turn with a sentinel in every field."""
    fields = {"conversation_id": conversation_id, "channel_id": "web", "role": "customer"}
    now = {"occurred_at": now_ms()}
    return ConversationTurn.model_validate({**SENTINELS, **fields, **now, **changes})


async def test_nothing_that_is_sent_gets_into_logs_or_metrics(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Hostile strings in every field, good, refused and abandoned, leave no trace for operators.

    Every process that reads them is looked at, the shadow with the same failing decider included.
    """
    changes = {"shadow": {"decider": "by_word"}}
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, **changes) as on:
        roles = [await on.start(name, ready=False) for name in ROLES]
        for role in roles:
            await on.owned(role)
        key = "SENTINEL-conversation"
        sent = [
            hostile(key, turn_id="SENTINEL-1", text="SENTINEL order one"),
            hostile(key, turn_id="SENTINEL-2", text="SENTINEL order two"),
            hostile(key, turn_id="SENTINEL-3", channel_id="SENTINEL-channel"),
            hostile(key, turn_id="SENTINEL-" + "x" * 200),
            hostile("SENTINEL-exploding"),
        ]
        for one in sent:
            await on.send(one, headers=[("SENTINEL-header", b"SENTINEL-value")])
        where = on.partition(key)
        await on.raw(b"SENTINEL not avro", key=key.encode(), partition=where)
        await on.raw(invalid_by_the_model(on, key), key=key.encode(), partition=where)
        live = LiveAction(
            live_action_id="SENTINEL-live",
            conversation_id=key,
            action="call_tool",
            tool="SENTINEL-tool",
            actor="SENTINEL-actor",
            occurred_at=now_ms(),
        )
        await on.send(live)
        last = await on.send(turn(key, "Hello", turn_id="SENTINEL-last"))

        async def all_handled() -> bool:
            ends = [
                await role.sample("committed_offset", topic=TURNS, partition=str(where)) > last[1]
                for role in roles
                if role.name in ("decide", "classify", "shadow")
            ]
            return all(ends) and len(await on.letters()) == 5

        await until(all_handled, lambda: "\n".join(role.text()[-2000:] for role in roles))
        for role in roles:
            exposition, log = await role.exposition(), role.text()

            assert "SENTINEL" not in exposition, role.name
            assert "SENTINEL" not in log, role.name

        assert dict.fromkeys(ROLES, 0) == await on.stop_all()
        for role in roles:
            assert "SENTINEL" not in role.text(), role.name
