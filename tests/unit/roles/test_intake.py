"""The checks of form that every record passes, whoever wrote it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.roles.bench import CODEC, NOW, action, record, turn
from turnstream.core.events import Answer, ConversationControl, Event, Source
from turnstream.core.publications import ActionEvent
from turnstream.roles.intake import Intake, source_of
from turnstream.stream import ForAnotherRole, Record, Rejected, UnknownSchema
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.partitioner import partitioner

TURNS = "staging.turns"
LIMIT = 4_096
INTAKE = Intake(
    CODEC,
    topics={
        TURNS: "conversation.turns",
        "staging.control": "conversation.control",
        "staging.actions": "conversation.actions",
    },
    role="decide",
    partitions=4,
    partitioner=partitioner("murmur2"),
    max_record_bytes=LIMIT,
)
HOME = partitioner("murmur2")(b"c-1", 4)
GOOD = CODEC.encode(turn("Hello"))


def fetched(value: bytes | None, **changes: Any) -> Record:
    """A record as it was fetched from where the conversation lives."""
    given = {"value": value, "partition": HOME, **changes}
    return replace(record(turn("Hello"), 0, topic=TURNS), **given)


def test_a_good_record_is_admitted_under_its_key() -> None:
    """By the physical name of its topic."""
    assert (b"c-1", turn("Hello")) == INTAKE.admit(fetched(GOOD))


@pytest.mark.parametrize(
    "event",
    [
        ConversationControl(
            control_id="x", conversation_id="c-1", kind="close", actor="a", occurred_at=NOW
        ),
        action("answer", {"text": "Hello", "locale": "en"}),
    ],
)
def test_each_topic_has_its_own_event(event: ConversationControl | ActionEvent) -> None:
    """The same bytes on another topic are another thing, and refused."""
    topic = "staging.control" if isinstance(event, ConversationControl) else "staging.actions"
    value = CODEC.encode(event)

    assert (b"c-1", event) == INTAKE.admit(fetched(value, topic=topic))
    with pytest.raises(Rejected) as raised:
        INTAKE.admit(fetched(value))
    assert "malformed" == raised.value.reason
    assert type(event).__name__ in raised.value.detail


def invalid(**changes: Any) -> bytes:
    """A turn that decodes and breaks a rule of its model."""
    return CODEC.encode(turn("Hello").model_copy(update=changes))


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        ({"key": None}, "missing_key", "conversation id"),
        ({"key": b""}, "missing_key", "conversation id"),
        ({"key": b"c" * 513}, "invalid", "513 bytes; at most 512"),
        ({"value": None}, "missing_value", "tombstone"),
        ({"value": bytes(LIMIT + 1)}, "oversized", f"{LIMIT + 1} bytes; at most {LIMIT}"),
        ({"value": b""}, "malformed", "empty"),
        ({"value": b"not json"}, "malformed", "neither framing"),
        ({"value": bytes.fromhex("fffe00")}, "malformed", "neither framing"),
        ({"value": b"[]"}, "malformed", "JSON text"),
        ({"value": b' {"turn_id":"t"}'}, "malformed", "JSON text"),
        ({"value": bytes.fromhex("000000002a7b226964223a317d")}, "malformed", "Confluent framing"),
        ({"value": bytes.fromhex("7b226964223a317d")}, "malformed", "JSON text"),
        ({"value": bytes.fromhex("0000")}, "malformed", "Confluent framing: the header has 5"),
        ({"value": b"\x00"}, "malformed", "Confluent framing: the header has 5"),
        ({"value": GOOD[:5]}, "malformed", "single-object encoding: the header has 10"),
        ({"value": GOOD[:-3]}, "malformed", "truncated"),
        ({"value": GOOD + b"\x00"}, "malformed", "1 bytes follow"),
        ({"value": invalid(occurred_at=-1)}, "invalid", "occurred_at"),
        ({"value": invalid(turn_id="")}, "invalid", "turn_id"),
        ({"key": b"c-2"}, "wrong_partition", "the key is not the event's conversation_id"),
        ({"key": b"\xff\xfe"}, "wrong_partition", "the key is not the event's conversation_id"),
        ({"key": IMPRINT_KEY}, "wrong_partition", "the key is not the event's conversation_id"),
        (
            {"partition": (HOME + 1) % 4},
            "wrong_partition",
            f"the key belongs to partition {HOME}",
        ),
    ],
)
def test_what_can_never_be_handled_is_rejected_with_its_reason(
    changes: dict[str, Any], reason: str, detail: str
) -> None:
    """The reason is one of the closed list; the detail names the fault."""
    with pytest.raises(Rejected) as raised:
        INTAKE.admit(replace(fetched(GOOD), **changes))

    assert reason == raised.value.reason
    assert detail in raised.value.detail


def test_an_action_whose_id_is_too_long_is_rejected() -> None:
    """It would be a header of what is made of it, beside a value that fills its record."""
    longest, too_long = (
        action("answer", {"text": "Hello", "locale": "en"}).model_copy(
            update={"action_id": "x" * n}
        )
        for n in (128, 129)
    )
    topic = "staging.actions"

    assert (b"c-1", longest) == INTAKE.admit(fetched(CODEC.encode(longest), topic=topic))
    with pytest.raises(Rejected, match="129 characters; at most 128") as raised:
        INTAKE.admit(fetched(CODEC.encode(too_long), topic=topic))
    assert "invalid" == raised.value.reason


def test_the_limit_itself_is_accepted() -> None:
    """A value of exactly the limit is read."""
    text = "x" * (LIMIT - len(GOOD) - 1 + len("Hello"))
    value = CODEC.encode(turn(text))

    assert LIMIT == len(value)
    assert (b"c-1", turn(text)) == INTAKE.admit(fetched(value))


@pytest.mark.parametrize(
    "changes", [{"turn_id": ""}, {"conversation_id": ""}, {"occurred_at": -1}], ids=str
)
def test_details_hold_nothing_of_the_record(changes: dict[str, Any]) -> None:
    """They become a header that operators see."""
    value = invalid(text="SENTINEL", actor_id="SENTINEL", **changes)

    with pytest.raises(Rejected) as raised:
        INTAKE.admit(fetched(value))

    assert "SENTINEL" not in raised.value.detail


async def test_an_unknown_schema_is_no_reason_to_reject() -> None:
    """It is looked up; a deployment without anywhere to look knows nothing of it yet."""
    with pytest.raises(UnknownSchema) as raised:
        INTAKE.admit(fetched(b"\xc3\x01" + bytes(8) + b"x"))

    assert "0" * 16 == raised.value.fingerprint
    assert not await INTAKE.resolve_schema(raised.value.fingerprint)


def test_the_partition_of_a_key_is_remembered_within_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any number of conversations is checked with a bounded memory."""
    monkeypatch.setattr("turnstream.roles.intake._REMEMBERED_KEYS", 2)
    asked: list[bytes] = []

    def partition(key: bytes, count: int) -> int:
        asked.append(key)
        return 0

    intake = Intake(
        CODEC,
        topics={TURNS: "conversation.turns"},
        role="decide",
        partitions=1,
        partitioner=partition,
        max_record_bytes=LIMIT,
    )
    for name in ("a", "a", "b", "c", "a"):
        event = turn("Hello", conversation_id=name)
        source = replace(record(event, 0, topic=TURNS), key=name.encode())
        assert (name.encode(), event) == intake.admit(source)

    assert [b"a", b"b", b"c", b"a"] == asked


def with_headers(headers: Sequence[tuple[str, bytes | None]]) -> Record:
    """A record at offset 7 with headers."""
    return replace(fetched(GOOD), offset=7, headers=tuple(headers))


OWN = Source(topic=TURNS, partition=HOME, offset=7)


def origin(topic: bytes | None, partition: bytes | None, offset: bytes | None) -> Record:
    """A replayed record."""
    names = ("topic", "partition", "offset")
    return with_headers(
        [
            (f"turnstream.origin.{name}", value)
            for name, value in zip(names, (topic, partition, offset), strict=True)
        ]
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (origin(b"chat", b"3", b"41"), Source(topic="chat", partition=3, offset=41)),
        (origin(b"chat", b"3", None), OWN),
        (origin(b"chat", b"three", b"41"), OWN),
        (origin(b"chat", b"-1", b"41"), OWN),
        (origin(b"chat", b"3", b"-1"), OWN),
        (origin(b"chat", str(2**31).encode(), b"1"), OWN),
        (origin(b"chat", b"3", str(2**63).encode()), OWN),
        (origin(b"chat", b"3", b"9" * 5_000), OWN),
        (origin(b"\xff", b"3", b"41"), OWN),
        (with_headers([]), OWN),
        (with_headers([("turnstream.origin.topic", b"chat")]), OWN),
        (with_headers([("trace", None), ("tenant", b"a"), ("tenant", b"b")]), OWN),
    ],
)
def test_the_origin_of_a_replay_stands_for_its_record(source: Record, expected: Source) -> None:
    """Where it is whole and possible; anything else, and the record stands for itself."""
    assert expected == source_of(source)


def replayed_for(role: str, **changes: Any) -> Record:
    """A record that was replayed for one role."""
    headers = (
        *origin(TURNS.encode(), b"0", b"3").headers,
        ("turnstream.origin.for", role.encode()),
    )
    return replace(fetched(GOOD), headers=headers, **changes)


def test_what_was_replayed_for_another_role_is_passed_over() -> None:
    """This one has handled it; even if it could not read it now."""
    assert (b"c-1", turn("Hello")) == INTAKE.admit(replayed_for("decide"))
    with pytest.raises(ForAnotherRole, match="classify"):
        INTAKE.admit(replayed_for("classify"))
    with pytest.raises(ForAnotherRole, match="classify"):
        INTAKE.admit(replayed_for("classify", value=b"not json"))


@pytest.mark.parametrize("role", ["nobody", "answer", "your channels"])
def test_a_role_that_does_not_read_the_topic_keeps_nobody_from_a_record(role: str) -> None:
    """A stray header must not make a customer's turn nobody's."""
    assert (b"c-1", turn("Hello")) == INTAKE.admit(replayed_for(role))


def test_what_is_refused_a_second_time_is_this_roles_to_put_aside() -> None:
    """No other role looks at it, so none has a dead letter of it."""
    with pytest.raises(Rejected) as alone:
        INTAKE.admit(replayed_for("decide", value=b"not json"))
    with pytest.raises(Rejected) as everybody:
        INTAKE.admit(fetched(b"not json"))

    assert (True, False) == (alone.value.by_this_role_alone, everybody.value.by_this_role_alone)


def test_a_follower_hears_again_what_its_role_is_given_again() -> None:
    """Else it would not know the turn that is decided; the dead letter is the other's to write."""
    follower = Intake(
        CODEC,
        topics={TURNS: "conversation.turns"},
        role="shadow",
        follows="decide",
        partitions=4,
        partitioner=partitioner("murmur2"),
        max_record_bytes=LIMIT,
    )

    assert (b"c-1", turn("Hello")) == follower.admit(replayed_for("decide"))
    assert (b"c-1", turn("Hello")) == follower.admit(replayed_for("shadow"))
    with pytest.raises(ForAnotherRole, match="classify"):
        follower.admit(replayed_for("classify"))
    for role, alone in (("decide", False), ("shadow", True)):
        with pytest.raises(Rejected) as raised:
            follower.admit(replayed_for(role, value=b"not json"))
        assert alone == raised.value.by_this_role_alone


def test_an_origin_can_be_written_into_an_event() -> None:
    """The largest numbers that are taken over fit the schema of every event."""
    source = source_of(origin(b"chat", str(2**31 - 1).encode(), str(2**63 - 1).encode()))
    event: Event = action("answer", {"text": "x", "locale": "en"}, source=source)

    assert event == CODEC.decode_as(type(event), CODEC.encode(event))


def test_an_answer_is_not_read_where_none_is_expected() -> None:
    """A topic that is no source of the role is a defect of ours, not a bad record."""
    answer = Answer(action_id="a", conversation_id="c-1", model="m", occurred_at=NOW)

    with pytest.raises(KeyError):
        INTAKE.admit(fetched(CODEC.encode(answer), topic="elsewhere"))
