"""Record batches made byte by byte: what a broker takes and no client of ours would write."""

import struct
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.record.util import calc_crc32c, encode_varint

Header = tuple[bytes, bytes | None]

TIMESTAMP = 1_700_000_000_000
"""When the records of a batch were written, milliseconds."""


def raw_record(
    delta: int,
    value: bytes | None,
    *,
    key: bytes | None = b"k",
    headers: Sequence[Header] = (),
    attributes: int = 0,
    tail: bytes = b"",
) -> bytes:
    """One record, `delta` offsets behind the first."""
    body = bytearray([attributes])
    for number in (0, delta):
        encode_varint(number, body.append)
    for content in (key, value):
        _put(body, content)
    encode_varint(len(headers), body.append)
    for name, content in headers:
        _put(body, name)
        _put(body, content)
    framed = bytearray()
    encode_varint(len(body) + len(tail), framed.append)
    return bytes(framed + body + tail)


def raw_batch(
    records: Sequence[bytes],
    *,
    base: int = 0,
    codec: int = 0,
    compress: Callable[[bytes], bytes] = bytes,
    attributes: int = 0,
    producer: int = -1,
    at: int = TIMESTAMP,
) -> bytes:
    """A batch of records with a checksum that fits."""
    count = len(records)
    head = struct.pack(">hiqqqhii", attributes | codec, count - 1, at, at, producer, -1, -1, count)
    body = head + compress(b"".join(records))
    rest = struct.pack(">ibI", -1, 2, calc_crc32c(body)) + body
    return struct.pack(">qi", base, len(rest)) + rest


async def send_batch(
    producer: AIOKafkaProducer, batch: bytes, topic: str, *, partition: int
) -> int:
    """Write a batch as it is; the offset of its first record."""
    builder = producer.create_batch()
    builder.append(timestamp=None, key=b"", value=b"")
    builder.close()
    builder._buffer = bytearray(batch)
    sent = await (await producer.send_batch(builder, topic, partition=partition))
    offset: int = sent.offset
    return offset


def _put(body: bytearray, content: bytes | None) -> None:
    encode_varint(-1 if content is None else len(content), body.append)
    body += content or b""
