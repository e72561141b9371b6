"""From an event to the record that carries it: topic, key, value, CloudEvents headers."""

from collections.abc import Mapping
from typing import Final

from turnstream.config import TopicSettings
from turnstream.core.events import Answer, Event, Label, Timer, ToolResult
from turnstream.core.publications import (
    ActionEvent,
    OutboundMessage,
    Outcome,
    ShadowComparison,
    ShadowProposal,
)
from turnstream.stream import Publication, Record
from turnstream.stream.codec import Codec
from turnstream.stream.handler import Headers

TOPIC_OF: Final[Mapping[type[Event], str]] = {
    ActionEvent: "conversation.actions",
    Answer: "conversation.answers",
    Label: "conversation.labels",
    Outcome: "conversation.outcomes",
    OutboundMessage: "conversation.outbound",
    ShadowComparison: "shadow.comparisons",
    ShadowProposal: "shadow.proposals",
    Timer: "conversation.timers",
    ToolResult: "tool.results",
}
"""The one topic of each event that we write."""

_TRACEPARENT: Final = "traceparent"
_LONGEST_TRACEPARENT: Final = 128
"""A header longer than W3C Trace Context allows is not passed on: it could be anything."""


class Publisher:
    """Turns a role's events into publications."""

    def __init__(self, codec: Codec, topics: TopicSettings, *, role: str) -> None:
        """Prepare the constant part of the headers (CloudEvents 1.0, Kafka binding)."""
        self._codec = codec
        source = ("ce_source", f"turnstream/{role}".encode())
        version = ("ce_specversion", b"1.0")
        self._constant: dict[type[Event], tuple[str, Headers]] = {
            event: (
                topics.name(topic),
                (version, source, ("ce_type", f"turnstream.{event.__name__}".encode())),
            )
            for event, topic in TOPIC_OF.items()
        }
        """Event to its topic's physical name and to the headers that all of its kind have."""

    def publication(
        self, event: Event, *, key: bytes, event_id: str, record: "Record | None" = None
    ) -> Publication:
        """The record of an event.

        Args:
            event: what to publish.
            key: the bytes of its conversation id.
            event_id: what makes it unique, for ``ce_id``.
            record: the input that caused it; its ``traceparent`` is passed on.
        """
        topic, constant = self._constant[type(event)]
        headers = (*constant, ("ce_id", event_id.encode()))
        trace = traceparent_of(record)
        if trace is not None:
            headers += ((_TRACEPARENT, trace),)
        return Publication(topic, key, self._codec.encode(event), headers)


def traceparent_of(record: "Record | None") -> bytes | None:
    """The W3C Trace Context of a record, where it has one of a possible length."""
    if record is None or not record.headers:
        return None
    for name, value in record.headers:
        if name == _TRACEPARENT and value and len(value) <= _LONGEST_TRACEPARENT:
            found: bytes = value
            return found
    return None
