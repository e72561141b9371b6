"""From an event to the record that carries it."""

from dataclasses import replace

import pytest

from tests.unit.roles.bench import CODEC, NOW, record, turn
from turnstream.config import TopicSettings
from turnstream.core.events import Event, Timer
from turnstream.roles.publishing import TOPIC_OF, Publisher
from turnstream.stream.contracts import EVENTS

TIMER = Timer(timer_id="tm", conversation_id="c-1", kind="call_deadline", due_at=NOW)
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_each_event_of_ours_has_the_topic_of_its_contract() -> None:
    """What is written under a topic's name is what is read under it."""
    assert {topic: model for model, topic in TOPIC_OF.items()}.items() <= EVENTS.items()


def test_topics_are_written_under_their_physical_names() -> None:
    """A prefix or a name of its own."""
    for topics, expected in (
        (TopicSettings(prefix="staging."), "staging.conversation.timers"),
        (TopicSettings(prefix="staging.", timers="mine"), "mine"),
    ):
        publication = Publisher(CODEC, topics, role="decide").publication(
            TIMER, key=b"c-1", event_id="tm"
        )

        assert expected == publication.topic


def test_the_record_is_a_cloud_event() -> None:
    """Its attributes are headers, its value the plain event."""
    publication = Publisher(CODEC, TopicSettings(), role="decide").publication(
        TIMER, key=b"c-1", event_id="tm"
    )
    expected: Event = TIMER

    assert b"c-1" == publication.key
    assert expected == CODEC.decode_as(Timer, publication.value or b"")
    assert (
        ("ce_specversion", b"1.0"),
        ("ce_source", b"turnstream/decide"),
        ("ce_type", b"turnstream.Timer"),
        ("ce_id", b"tm"),
    ) == publication.headers


@pytest.mark.parametrize(
    ("headers", "passed_on"),
    [
        ((), []),
        ((("traceparent", PARENT),), [PARENT]),
        ((("traceparent", PARENT), ("traceparent", b"00-second")), [PARENT]),
        ((("traceparent", None), ("traceparent", PARENT)), [PARENT]),
        (
            (
                ("traceparent", b""),
                ("traceparent", b"x" * 129),
                ("traceparent", PARENT),
                ("traceparent", b"00-second"),
                ("traceparent", PARENT),
            ),
            [PARENT],
        ),
        ((("traceparent", None),), []),
        ((("traceparent", b"x" * 129),), []),
        ((("tracestate", b"x"), ("tenant", b"SENTINEL"), ("x", b"\xff")), []),
    ],
)
def test_only_a_trace_is_passed_on(
    headers: tuple[tuple[str, bytes | None], ...], passed_on: list[bytes]
) -> None:
    """The first that may be one; no other header of somebody else's leaves with our events."""
    source = replace(record(turn("Hello"), topic="conversation.turns"), headers=headers)

    publication = Publisher(CODEC, TopicSettings(), role="decide").publication(
        TIMER, key=b"c-1", event_id="tm", record=source
    )

    assert passed_on == [value for name, value in publication.headers[4:]]
    assert {"traceparent"} >= {name for name, _ in publication.headers[4:]}
