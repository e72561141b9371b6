"""How a lane's store is laid out in RocksDB, and what memory, files and log it may take.

Beside the records are three entries of the store's own: which changelog it belongs to, how far it
has followed it, and what the changelog says of itself.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import orjson
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    WriteBufferManager,
)

if TYPE_CHECKING:
    from turnstream.stream.changelog import Changelog

FORMAT: Final = 2
"""Layout of keys and values here; a store of another one is rebuilt.

1: the first. 2: what the changelog says of itself is no record.
"""

RECORD: Final = b"k"
"""Before each key; sorts behind everything else in here."""
IDENTITY: Final = b"!identity"
IMPRINT: Final = b"!imprint"
POSITION: Final = b"!position"

NUMBERS: Final = struct.Struct(">qq")
"""Position (-1: none), and the time (ms) at which nothing committed lay beyond it."""

NO_POSITION: Final = -1

_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Blocks kept in memory, of all partitions together: without a bound of the process's own each
partition would have one."""

_WRITE_BYTES: Final = 48 * 1024 * 1024
"""Written and not yet in files, of all partitions together: as above."""

_LOG_BYTES: Final = 64 * 1024 * 1024
"""Of a partition's write-ahead log: bounds how long opening takes after a kill."""

_OPEN_FILES: Final = 64
"""Of one partition: a process with many partitions would run out of file descriptors."""


class _Shared:
    """What the partitions of a process have in common; made with the first of them."""

    cache: Cache | None = None
    writes: WriteBufferManager | None = None


def identity_of(changelog: Changelog, partition: int) -> bytes:
    """Return what the store of a changelog partition is told apart by."""
    return orjson.dumps(
        {
            "format": FORMAT,
            "cluster": changelog.cluster_id,
            "topic": changelog.topic,
            "topic_id": changelog.topic_id,
            "partition": partition,
        },
        option=orjson.OPT_SORT_KEYS,
    )


def options() -> Options:
    """Return the options that every store of the process is opened with."""
    if _Shared.cache is None or _Shared.writes is None:
        _Shared.cache = Cache(_CACHE_BYTES)
        _Shared.writes = WriteBufferManager(_WRITE_BYTES, False)  # noqa: FBT003 - positional there
    table = BlockBasedOptions()
    table.set_block_cache(_Shared.cache)
    # Else indexes and filters live beside the cache, and grow with the state.
    table.set_cache_index_and_filter_blocks(True)
    table.set_bloom_filter(10, False)  # noqa: FBT003 - positional there
    table.set_block_size(16 * 1024)
    options = Options(raw_mode=True)
    options.create_if_missing(True)  # noqa: FBT003 - positional there
    options.set_block_based_table_factory(table)
    options.set_write_buffer_manager(_Shared.writes)
    options.set_write_buffer_size(_WRITE_BYTES // 4)
    options.set_max_total_wal_size(_LOG_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_open_files(_OPEN_FILES)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_stats_dump_period_sec(0)
    return options
