"""Any event comes back equal from its bytes, in both framings, and the bytes are Avro's."""

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.strategies import events
from turnstream.core.events import Event
from turnstream.stream.avro import Undecodable, compile_decoder
from turnstream.stream.codec import Codec
from turnstream.stream.contracts import EVENTS, newest, without_logical_types

SINGLE_OBJECT = Codec()
CONFLUENT = Codec(registry=True)
CONFLUENT.use_registered_ids({model: 100 + n for n, model in enumerate(EVENTS.values())})

PARSED = {
    topic: fastavro.parse_schema(without_logical_types(newest(topic).definition))
    for topic in EVENTS
}


@pytest.mark.parametrize("topic", EVENTS)
@settings(max_examples=60)
@given(data=st.data())
def test_round_trip_in_both_framings(topic: str, data: st.DataObject) -> None:
    """decode(encode(event)) is the event, whichever framing is written."""
    event: Event = data.draw(events(EVENTS[topic]))

    assert event == SINGLE_OBJECT.decode(topic, SINGLE_OBJECT.encode(event))
    assert event == CONFLUENT.decode(topic, CONFLUENT.encode(event))


@pytest.mark.parametrize("topic", EVENTS)
@settings(max_examples=60)
@given(data=st.data())
def test_bytes_equal_those_of_an_independent_writer(topic: str, data: st.DataObject) -> None:
    """The fastavro library writes the same body, and reads ours to the same fields."""
    event: Event = data.draw(events(EVENTS[topic]))
    body = io.BytesIO()
    fastavro.schemaless_writer(
        body, PARSED[topic], event.model_dump(mode="json"), disable_tuple_notation=True
    )

    value = SINGLE_OBJECT.encode(event)

    assert body.getvalue() == value[10:]
    read: Any = fastavro.schemaless_reader(io.BytesIO(value[10:]), PARSED[topic], None)
    assert event.model_dump(mode="json") == read


NUMBER: dict[str, Any] = {
    "type": "record",
    "name": "Number",
    "namespace": "turnstream",
    "fields": [{"name": "number", "type": "long"}],
}
DECODE_NUMBER = compile_decoder(NUMBER)


@settings(max_examples=300)
@given(low=st.integers(0, 9), last=st.integers(0, 0x7F), data=st.data())
def test_an_integer_never_has_more_than_64_bits(low: int, last: int, data: st.DataObject) -> None:
    """What can be read is what fastavro reads; what it would cut off is refused."""
    groups = data.draw(st.binary(min_size=low, max_size=low))
    value = bytes([*(group | 0x80 for group in groups), last])
    if low == 9 and last > 1:
        with pytest.raises(Undecodable, match="64 bits"):
            DECODE_NUMBER(value, 0)
        return

    read: Any = fastavro.schemaless_reader(io.BytesIO(value), NUMBER, None)

    assert (read, len(value)) == DECODE_NUMBER(value, 0)
    assert -(2**63) <= read["number"] < 2**63


@pytest.mark.parametrize("topic", EVENTS)
def test_headers(topic: str) -> None:
    """C3 01 and the fingerprint start one framing, 00 and the id the other."""
    fingerprint = bytes.fromhex(newest(topic).fingerprint)
    event = _any(EVENTS[topic])

    assert b"\xc3\x01" + fingerprint == SINGLE_OBJECT.encode(event)[:10]
    number = 100 + list(EVENTS).index(topic)
    assert b"\x00" + number.to_bytes(4, "big") == CONFLUENT.encode(event)[:5]


def _any(model: type[Event]) -> Event:
    found: list[Event] = []

    @settings(max_examples=1, database=None)
    @given(events(model))
    def draw(event: Event) -> None:
        found.append(event)

    draw()
    return found[0]
