r"""Fetched batches that aiokafka cannot read: a broker takes more than its client understands.

Kafka checks how a batch is built, not what the names of headers are made of, and of compressed data
only that the records come out. aiokafka decodes every name as UTF-8 and asks more of the
compression; where that fails its fetcher raises, and raises again at the same place for ever. Here
such a batch is read a second time, by a reader that takes what the broker took:

- a header name that is no UTF-8 is read with its odd bytes escaped (`h\xff`), so that it can be
  written again, to a dead letter say; the record is handled like any other;
- of a batch that nothing can be read of, its bytes stand in: one record without a key at the
  batch's last offset, which becomes a dead letter. Only for topics that ask for it: what stands in
  for a changelog's records would be a loss.

Nor does aiokafka ask what a compressed batch comes to. Those of the same topics are decompressed
here, up to a bound. One beyond it is stood in for, a large one is read by the second reader, and a
fetch that comes to much ends early: what is left of it is fetched again.

A checksum that does not fit stays an error: the next fetch may bring the true bytes. So does a
compression whose library is missing. Any other batch is read by aiokafka alone.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import (
    DefaultRecordBatch,
    _DefaultRecordBatchPy,
    _DefaultRecordPy,
)
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.memory_records import MemoryRecords

# Its twin in C reads on behind the end of what it is given.
from aiokafka.record.util import decode_varint_py

from turnstream.stream.compression import inflated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiokafka.structs import ConsumerRecord, TopicPartition

STAND_IN_HEADER: Final = "turnstream.batch"
"""Header of a record that stands in for a batch: how many records the batch says it has."""

_FRAME: Final = struct.Struct(">qi")
"""Base offset and length, the same in every version of a batch."""

_MAGIC_AT: Final = 16
_MODERN_MAGIC: Final = 2
_HEAD: Final = _DefaultRecordBatchPy.HEADER_STRUCT.size
_CODEC_AT: Final = _DefaultRecordBatchPy.ATTRIBUTES_OFFSET + 1
_CODEC_MASK: Final = _DefaultRecordBatchPy.CODEC_MASK

_BATCH_RATIO: Final = 32
"""A batch may come to as many of the largest records: events shrink to a tenth, rarely to less.
Without a bound, one of 9 KB could take all memory of the process, and of the next that reads it."""
_FETCH_RATIO: Final = 16
"""A fetch that has come to as many ends: it may hold a thousand batches near the bound."""
_LARGE_RATIO: Final = 2
"""What a fetch holds that is not compressed; a batch beyond it is read with a bound on headers."""
_MOST_HEADERS: Final = 10_000
"""Of one record. An empty header takes two bytes, and thirty times as much once it is read."""

_log = logging.getLogger(__name__)

mended: Counter[str] = Counter()
"""Topic to its records so far that had to be mended or stand in for a batch.

Each topic is counted by the one thread that reads it.
"""

_largest: dict[str, int] = {}
"""Topics whose batches are stood in for if need be, to the bytes of their largest records."""


def read_what_the_broker_took(topics: Iterable[str], *, max_record_bytes: int) -> None:
    """Let every consumer of this process read odd header names.

    Args:
        topics: Of these, batches that cannot be read are stood in for.
        max_record_bytes: Largest value that is accepted of them: what a batch may come to is in
            proportion to it.
    """
    _largest.update(dict.fromkeys(topics, max_record_bytes))
    fetcher.MemoryRecords = KeptRecords
    fetcher.PartitionRecords = MendingRecords


class _Allowance:
    """What the batches of one fetch may still come to, in bytes; None: anything."""

    def __init__(self, topic: str) -> None:
        largest = _largest.get(topic)
        self.left = None if largest is None else _FETCH_RATIO * largest

    def is_used_up(self) -> bool:
        return self.left is not None and self.left < 0

    def spend(self, size: int) -> None:
        if self.left is not None:
            self.left -= size


class KeptRecords(MemoryRecords):
    """The batches of one fetch, with their bytes: aiokafka's own do not give them back."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.data = data
        self.base = 0
        self.end = 0
        """Of the last batch: its first offset, and the one behind its last."""
        self._at = 0
        self._tp: TopicPartition | None = None
        self._allowance: _Allowance | None = None

    def bind(self, tp: TopicPartition) -> bool:
        """Take note of where the batches come from; tell whether something may stand in."""
        if tp.topic not in _largest:
            return False
        self._tp, self._allowance = tp, _Allowance(tp.topic)
        return True

    def has_next(self) -> bool:
        """Tell whether another batch may be read."""
        used_up = self._allowance is not None and self._allowance.is_used_up()
        return not used_up and bool(super().has_next())

    def next_batch(self) -> Any:
        """Return the next batch; the records of a compressed one come with a bound."""
        batch = super().next_batch()
        if self._tp is None or self._allowance is None or batch is None:
            return batch
        at = self._at
        _, length = _FRAME.unpack_from(self.data, at)
        self._at = at + _FRAME.size + int(length)
        self.base, self.end = batch.base_offset, batch.next_offset
        if batch.magic < _MODERN_MAGIC or not batch.compression_type or batch.is_control_batch:
            return batch
        data = self.data[at : self._at]
        return _Compressed(batch, data, tp=self._tp, allowance=self._allowance)


class _Compressed:
    """A batch of aiokafka's that is decompressed here, when its records are asked for."""

    def __init__(
        self, batch: Any, data: bytes, *, tp: TopicPartition, allowance: _Allowance
    ) -> None:
        self._batch = batch
        self._data = data
        self._tp = tp
        self._allowance = allowance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        largest = _largest[self._tp.topic]
        plain = inflated(
            self._data[_HEAD:], codec=self._batch.compression_type, most=_BATCH_RATIO * largest
        )
        self._allowance.spend(len(plain))
        if len(plain) > _LARGE_RATIO * largest:
            return iter(_Batch(self._data, tp=self._tp, plain=plain))
        head = bytearray(self._data[:_HEAD])
        head[_CODEC_AT] &= ~_CODEC_MASK
        return iter(DefaultRecordBatch(bytes(head) + plain))


class MendingRecords(fetcher.PartitionRecords):
    """The records of one fetch; what cannot be read is read again.

    A broker does not ask whether the offsets of records lie in their batch. One beyond it would be
    taken for a position, and what is there by then would never be read.
    """

    _records: Any
    _records_iterator: Any
    next_fetch_offset: int

    def __init__(self, tp: TopicPartition, records: Any, *rest: Any) -> None:
        super().__init__(tp, records, *rest)
        self._kept = records if isinstance(records, KeptRecords) and records.bind(tp) else None
        self._read = self.next_fetch_offset

    def __next__(self) -> ConsumerRecord[bytes, bytes]:
        try:
            record: ConsumerRecord[bytes, bytes] = next(self._records_iterator)
        except StopIteration:
            self._records_iterator = None
            raise
        except UnsupportedCodecError:
            raise
        except Exception as error:  # noqa: BLE001 - raised again if a second reading fails too
            return self._again(error)
        kept = self._kept
        if kept is not None:
            if record.offset >= kept.end:
                self.next_fetch_offset = max(self._read, kept.base)
                return self._again(CorruptRecordException("an offset is not its batch's"))
            self._read = record.offset + 1
        return record

    def _again(self, error: Exception) -> ConsumerRecord[bytes, bytes]:
        """Go on with a reader that takes more; raise what even that cannot read."""
        records = self._records
        if not isinstance(records, KeptRecords):
            raise error
        _log.warning(
            "%s is read again from offset %s: %s",
            self._tp,
            self.next_fetch_offset,
            type(error).__name__,
        )
        self._records = _Batches(records.data, start=self.next_fetch_offset, tp=self._tp)
        self._records_iterator = self._unpack_records()
        self._kept = None
        return self.__next__()


class _Batches:
    """In place of aiokafka's `MemoryRecords`: the batches from an offset on."""

    def __init__(self, data: bytes, *, start: int, tp: TopicPartition) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._tp = tp
        self._allowance = _Allowance(tp.topic)
        while (batch := self._peek()) is not None and batch.next_offset <= start:
            self._at += self._size()

    def has_next(self) -> bool:
        return self._size() > 0 and not self._allowance.is_used_up()

    def next_batch(self) -> Any:
        batch = self._peek()
        self._at += self._size()
        return batch

    def _size(self) -> int:
        """Return the bytes of the batch here, 0 where the fetch ends or was cut."""
        left = len(self._data) - self._at
        if left < _FRAME.size:
            return 0
        _, length = _FRAME.unpack_from(self._data, self._at)
        size = _FRAME.size + int(length)
        return size if size <= left else 0

    def _peek(self) -> Any:
        size = self._size()
        if not size:
            return None
        data = bytes(self._data[self._at : self._at + size])
        magic = data[_MAGIC_AT]
        if magic < _MODERN_MAGIC:
            return LegacyRecordBatch(data, magic)
        return _Batch(data, tp=self._tp, allowance=self._allowance)


class _Batch(_DefaultRecordBatchPy):
    """A batch, read as the broker reads it."""

    _pos: int

    def __init__(
        self,
        data: bytes,
        *,
        tp: TopicPartition,
        plain: bytes | None = None,
        allowance: _Allowance | None = None,
    ) -> None:
        """Prepare.

        Args:
            data: The batch as it was fetched.
            tp: Where from.
            plain: Its records, where they have been decompressed already.
            allowance: What they are counted against otherwise.
        """
        super().__init__(data)
        self._data = data
        self._tp = tp
        self._allowance = allowance
        self._given_up = False
        self._ended = False
        if plain is not None:
            self._take(plain)

    def _take(self, plain: bytes) -> None:
        self._buffer = bytearray(plain)
        self._pos = 0
        self._decompressed = True

    def _maybe_uncompress(self) -> None:
        largest = _largest.get(self._tp.topic)
        if largest is None or self._decompressed or not self.compression_type:
            super()._maybe_uncompress()
            return
        plain = inflated(
            self._data[_HEAD:], codec=self.compression_type, most=_BATCH_RATIO * largest
        )
        if self._allowance is not None:
            self._allowance.spend(len(plain))
        self._take(plain)

    def __iter__(self) -> _Batch:
        try:
            self._maybe_uncompress()
        except UnsupportedCodecError:
            raise
        except Exception as error:  # noqa: BLE001 - each compression has errors of its own
            self._give_up(error)
        return self

    def __next__(self) -> Any:
        if not self._given_up:
            try:
                return super().__next__()
            except CorruptRecordException as error:
                self._give_up(error)
        if self._ended:
            raise StopIteration
        self._ended = True
        mended[self._tp.topic] += 1
        return _DefaultRecordPy(
            # The last one, so that nothing of the batch is fetched again.
            self.next_offset - 1,
            self.max_timestamp,
            self.timestamp_type,
            None,
            self._data,
            [(STAND_IN_HEADER, str(self._num_records).encode())],
        )

    def _give_up(self, error: Exception) -> None:
        """Let the batch's bytes stand in for what is left of it, or raise."""
        if self._tp.topic not in _largest:
            raise error
        self._given_up = True
        _log.error(
            "a batch of %s at offset %s cannot be read and becomes a dead letter: %s",
            self._tp,
            self.base_offset,
            type(error).__name__,
        )

    def _read_msg(self) -> Any:
        """Read a record. Its first byte is a byte, which aiokafka takes for a number."""
        data = self._buffer
        length, at = decode_varint_py(data, self._pos)
        end = at + length
        at += 1
        delta, at = decode_varint_py(data, at)
        offset, at = decode_varint_py(data, at)
        key, at = _nullable(data, at)
        value, at = _nullable(data, at)
        count, at = decode_varint_py(data, at)
        if not 0 <= offset <= self.last_offset_delta:
            raise CorruptRecordException(f"a record is {offset} offsets behind the first")
        if count > _MOST_HEADERS and self._tp.topic in _largest:
            raise CorruptRecordException(f"a record has {count} headers")
        headers: list[tuple[str, bytes | None]] = []
        odd = False
        for _ in range(count):
            name, at = _nullable(data, at)
            content, at = _nullable(data, at)
            text = (name or b"").decode("utf-8", "backslashreplace")
            odd = odd or text.encode() != name
            headers.append((text, content))
        if at != end or end > len(data):
            raise CorruptRecordException(f"a record of {length} bytes ends elsewhere")
        if odd:
            mended[self._tp.topic] += 1
        self._pos = end
        is_appended = self.timestamp_type == self.LOG_APPEND_TIME
        return _DefaultRecordPy(
            self.base_offset + offset,
            self.max_timestamp if is_appended else self.first_timestamp + delta,
            self.timestamp_type,
            key,
            value,
            headers,
        )


def _nullable(data: bytearray, at: int) -> tuple[bytes | None, int]:
    """Read bytes with their length before them, and where they end."""
    length, at = decode_varint_py(data, at)
    if length < 0:
        return None, at
    return bytes(data[at : at + length]), at + length
