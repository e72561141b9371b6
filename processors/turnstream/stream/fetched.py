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

A checksum that does not fit stays an error: the next fetch may bring the true bytes. So does a
compression whose library is missing. Batches that can be read never come here.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import _DefaultRecordBatchPy, _DefaultRecordPy
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiokafka.structs import ConsumerRecord, TopicPartition

STAND_IN_HEADER: Final = "turnstream.batch"
"""Header of a record that stands in for a batch: how many records the batch says it has."""

_FRAME: Final = struct.Struct(">qi")
"""Base offset and length, the same in every version of a batch."""

_MAGIC_AT: Final = 16
_MODERN_MAGIC: Final = 2

_log = logging.getLogger(__name__)

mended: Counter[str] = Counter()
"""Topic to its records so far that had to be mended or stand in for a batch.

Each topic is counted by the one thread that reads it.
"""

_standing_in: set[str] = set()


def read_what_the_broker_took(topics: Iterable[str]) -> None:
    """Let every consumer of this process read odd header names.

    Args:
        topics: Of these, batches that cannot be read are stood in for.
    """
    _standing_in.update(topics)
    fetcher.MemoryRecords = KeptRecords
    fetcher.PartitionRecords = MendingRecords


class KeptRecords(MemoryRecords):
    """The batches of one fetch, with their bytes: aiokafka's own do not give them back."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.data = data


class MendingRecords(fetcher.PartitionRecords):
    """The records of one fetch; what cannot be read is read again.

    Per record this runs as much code as its base.
    """

    _records: Any
    _records_iterator: Any

    def __next__(self) -> ConsumerRecord[bytes, bytes]:
        try:
            record: ConsumerRecord[bytes, bytes] = next(self._records_iterator)
            return record
        except StopIteration:
            self._records_iterator = None
            raise
        except UnsupportedCodecError:
            raise
        except Exception as error:  # noqa: BLE001 - raised again if a second reading fails too
            return self._again(error)

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
        return self.__next__()


class _Batches:
    """In place of aiokafka's `MemoryRecords`: the batches from an offset on."""

    def __init__(self, data: bytes, *, start: int, tp: TopicPartition) -> None:
        self._data = memoryview(data)
        self._at = 0
        self._tp = tp
        while (batch := self._peek()) is not None and batch.next_offset <= start:
            self._at += self._size()

    def has_next(self) -> bool:
        return self._size() > 0

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
        return _Batch(data, tp=self._tp)


class _Batch(_DefaultRecordBatchPy):
    """A batch, read as the broker reads it."""

    _pos: int

    def __init__(self, data: bytes, *, tp: TopicPartition) -> None:
        super().__init__(data)
        self._data = data
        self._tp = tp
        self._given_up = False
        self._ended = False

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
        if self._tp.topic not in _standing_in:
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
        length, at = decode_varint(data, self._pos)
        end = at + length
        at += 1
        delta, at = decode_varint(data, at)
        offset, at = decode_varint(data, at)
        key, at = _nullable(data, at)
        value, at = _nullable(data, at)
        count, at = decode_varint(data, at)
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
    length, at = decode_varint(data, at)
    if length < 0:
        return None, at
    return bytes(data[at : at + length]), at + length
