"""The committed records of a lane on this host's disk, so that a restart reads only what is new.

One directory for each group and partition, under `data_dir`:

    <group>/<partition>/         RocksDB: the records, the position, the changelog's identity
    <group>/<partition>.lock     held while a lane uses it; names the process that does
    <group>/<partition>.broken   what was found wrong while it was used: it is rebuilt

The files stay when the partition goes to another process: should it come back, only what was
written meanwhile is read. The changelog is the truth: a store that does not fit it is emptied, with
an error in the log, and filled again. Nothing here waits for the disk (no fsync): the records of a
transaction and its position are one batch of RocksDB's log, so whatever a crash leaves is a state
that the changelog once had. What is not noticed: brokers that lose acknowledged records (an unclean
leader election) and grow past the position again under the same topic.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import shutil
import struct
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import quote

import orjson
from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
)

from turnstream.stream.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from io import TextIOWrapper

    from turnstream.stream.changelog import Changelog

logger = logging.getLogger(__name__)

FORMAT: Final = 1
"""Layout of keys and values here; a store of another one is rebuilt."""

LOCK_SECONDS: Final = 30.0
"""Wait for a process that is ending and still has the partition's files, longer than its grace and
its last commit: one that hangs must not keep the partition without an owner unnoticed."""

_POLL_SECONDS: Final = 0.1

_RECORD: Final = b"k"
"""Before each key; sorts behind everything else in here."""
_IDENTITY: Final = b"!identity"
_POSITION: Final = b"!position"

_NUMBERS: Final = struct.Struct(">qq")
"""Position (-1: none), and the time (ms) at which nothing committed lay beyond it."""

_NONE: Final = -1

_CACHE_BYTES: Final = 64 * 1024 * 1024
"""Blocks kept in memory, of all partitions together: without a bound of the process's own each
partition would have one."""

_WRITE_BYTES: Final = 48 * 1024 * 1024
"""Written and not yet in files, of all partitions together: as above."""

_LOG_BYTES: Final = 64 * 1024 * 1024
"""Of a partition's write-ahead log: bounds how long opening takes after a kill."""

_OPEN_FILES: Final = 64
"""Of one partition: a process with many partitions would run out of file descriptors."""

_MARGIN_MS: Final = 3_600_000
"""Kept between a store's age and the end of the changelog's tombstones: two clocks, and the time
that a restore takes."""


class _Shared:
    """What the partitions of a process have in common; made with the first of them."""

    cache: Cache | None = None
    writes: WriteBufferManager | None = None


def _options() -> Options:
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


def check_data_dir(data_dir: str) -> str | None:
    """Return what is wrong with a data directory, which is made if there is none."""
    try:
        Path(data_dir).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"cannot be made: {error}"
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        return "cannot be written by this process's user"
    return None


class RocksRecords:
    """`Records` on disk; memory holds the keys, not the records."""

    def __init__(
        self,
        group: str,
        partition: int,
        *,
        data_dir: str,
        changelog: Changelog,
        lock: TextIOWrapper,
    ) -> None:
        """Open the files of a partition whose lock is held; see `open_records`."""
        self._folder = _folder(data_dir, group=group, partition=partition)
        self._broken = self._folder.with_suffix(".broken")
        self._identity = orjson.dumps(
            {
                "format": FORMAT,
                "cluster": changelog.cluster_id,
                "topic": changelog.topic,
                "topic_id": changelog.topic_id,
                "partition": partition,
            },
            option=orjson.OPT_SORT_KEYS,
        )
        self._lock = lock
        self._keys: set[bytes] | None = None
        """Keys with a record; known once the store has been read through."""
        self._position = _NONE
        self._at = 0
        self._doubt: str | None = None
        self._db: Rdict | None = None
        try:
            problem = self._found_broken() or self._open() or self._mismatch(changelog)
            if problem is not None:
                self._rebuild(problem)
        except BaseException:
            self._close_files()
            raise

    # Opening.

    def _found_broken(self) -> str | None:
        """Return what was found wrong with the files while they were used."""
        return f"it was found broken: {_text(self._broken)}" if self._broken.exists() else None

    def _open(self) -> str | None:
        """Open the files; return why they cannot be used.

        Raises:
            StoreFailed: The disk is at fault, not what is on it.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._db = Rdict(str(self._folder), _options())
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more exact
            if _is_of_the_disk(error):
                self._fail("opened", error)
            return f"it cannot be opened: {error}"
        return None

    def _mismatch(self, changelog: Changelog) -> str | None:
        """Return why what was opened does not fit the changelog."""
        db = self._opened()
        try:
            identity, numbers = db.get(_IDENTITY), db.get(_POSITION)
            entries = db.iter()
            entries.seek_to_first()
            empty = not entries.valid()
            entries.status()
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more exact
            if _is_of_the_disk(error):
                self._fail("read", error)
            return f"it cannot be read: {error}"
        if empty:
            self._begin()
            return None
        if identity != self._identity:
            return f"it belongs to {_shown(identity)}, not to {_shown(self._identity)}"
        if not isinstance(numbers, bytes) or len(numbers) != _NUMBERS.size:
            return "it has no position"
        self._position, self._at = _NUMBERS.unpack(numbers)
        kept = changelog.tombstones_kept_ms
        age = _now_ms() - self._at
        if not -_MARGIN_MS <= age < kept - min(_MARGIN_MS, kept // 2):
            self._doubt = (
                f"it was last up to date {age / 3_600_000:.1f} h ago and the changelog keeps "
                f"removals for {kept / 3_600_000:.1f} h (delete.retention.ms): what was removed "
                f"meanwhile would come back"
            )
        return None

    def _begin(self) -> None:
        """Write what an empty store begins with."""
        # Removals that happen while it is filled the first time are kept from now on.
        self._position, self._at = _NONE, _now_ms()
        self._doubt = None
        self._keys = set()
        batch = WriteBatch(raw_mode=True)
        batch.put(_IDENTITY, self._identity)
        batch.put(_POSITION, _NUMBERS.pack(self._position, self._at))
        with self._guarded("written") as db:
            db.write(batch)

    def _rebuild(self, reason: str, *, level: int = logging.ERROR) -> None:
        logger.log(
            level,
            "the local store %s is emptied and filled again from the changelog: %s",
            self._folder,
            reason,
        )
        self._close_files()
        try:
            if self._folder.exists():
                shutil.rmtree(self._folder)
            self._broken.unlink(missing_ok=True)
        except OSError as error:
            self._fail("emptied", error)
        if (problem := self._open()) is not None:
            self._fail("opened", problem)
        self._begin()

    # `Records`.

    @property
    def position(self) -> int | None:
        """Changelog offset below which all committed records are in here."""
        return None if self._position == _NONE else self._position

    @property
    def doubt(self) -> str | None:
        """Why removals may have been missed, if anything was written beyond the position."""
        return self._doubt

    def get(self, key: bytes) -> bytes | None:
        """Return the record of a key."""
        if self._keys is not None and key not in self._keys:
            return None
        with self._guarded("read") as db:
            value = db.get(_RECORD + key)
        return value if isinstance(value, bytes) else None

    def __contains__(self, key: object) -> bool:
        """Tell whether a key has a record."""
        return key in self._known()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._known())

    def items(self) -> Generator[tuple[bytes, bytes]]:
        """Yield every key with its record, one at a time."""
        keys: set[bytes] = set()
        with self._guarded("read") as db:
            # Not `db.items`: it ends at a broken block as if nothing followed.
            entries = db.iter()
            entries.seek(_RECORD)
        while True:
            with self._guarded("read"):
                if not entries.valid():
                    entries.status()
                    break
                name, value = entries.key(), entries.value()
                entries.next()
            key = name[len(_RECORD) :]
            keys.add(key)
            yield key, value
        self._keys = keys

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        *,
        position: int | None = None,
        at: int | None = None,
    ) -> None:
        """Write records and position in one batch; `None` removes a record."""
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(_RECORD + key)
            else:
                batch.put(_RECORD + key, value)
        if position is not None:
            self._position = position
            if at is not None:
                self._at, self._doubt = at, None
        batch.put(_POSITION, _NUMBERS.pack(self._position, self._at))
        with self._guarded("written") as db:
            db.write(batch)
        if self._keys is not None:
            for key, value in changes.items():
                if value is None:
                    self._keys.discard(key)
                else:
                    self._keys.add(key)

    def clear(self, reason: str, *, level: int = logging.ERROR) -> None:
        """Remove every record, because they do not belong to the changelog any more."""
        self._rebuild(reason, level=level)

    def close(self) -> None:
        """Give up files and lock; the files stay."""
        self._close_files()
        self._lock.close()

    # Below.

    def _known(self) -> set[bytes]:
        if self._keys is None:
            for _ in self.items():
                pass
        return self._keys or set()

    def _close_files(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            try:
                db.close()
            except Exception as error:  # noqa: BLE001 - what is not in files is in the changelog
                logger.warning("the local store %s did not close well: %s", self._folder, error)

    def _opened(self) -> Rdict:
        if self._db is None:
            raise StoreFailed(f"the local store {self._folder} is closed")
        return self._db

    @contextmanager
    def _guarded(self, done: str) -> Iterator[Rdict]:
        """Give the database; make what it raises an end of the process that says what to do."""
        db = self._opened()
        try:
            yield db
        except StoreFailed:
            raise
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more exact
            if not _is_of_the_disk(error):
                self._mark_broken(error)
            self._fail(done, error)

    def _mark_broken(self, error: Exception) -> None:
        try:
            self._broken.write_text(f"{error}\n", encoding="utf-8")
        except OSError as another:
            logger.warning("cannot write %s: %s", self._broken, another)

    def _fail(self, done: str, why: object) -> NoReturn:
        cause = why if isinstance(why, BaseException) else None
        raise StoreFailed(
            f"the local store {self._folder} could not be {done}: {why}. Nothing is lost: all of "
            f"it is in the changelog. See that the disk works and has room; the directory may be "
            f"removed, it is then filled again from the changelog"
        ) from cause


async def open_records(
    group: str,
    partition: int,
    *,
    data_dir: str,
    changelog: Changelog,
    lock_seconds: float = LOCK_SECONDS,
) -> RocksRecords:
    """Open the local store of a partition; empty where there is none that fits the changelog.

    Args:
        group: The consumer group, part of the path.
        partition: The lane's partition number.
        data_dir: Directory of all stores on this host.
        changelog: What the store must fit.
        lock_seconds: How long another process may still have it.

    Raises:
        StoreFailed: Another process keeps it, or the disk is at fault.
    """
    lock = await _lock(_folder(data_dir, group=group, partition=partition), seconds=lock_seconds)
    try:
        return RocksRecords(group, partition, data_dir=data_dir, changelog=changelog, lock=lock)
    except BaseException:
        lock.close()
        raise


async def _lock(folder: Path, *, seconds: float) -> TextIOWrapper:
    """Take the lock of a partition; the system frees it when its holder ends, however it ends."""
    path = folder.with_suffix(".lock")
    deadline = time.monotonic() + seconds
    told = False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Never removed: two processes could then hold two files of one name.
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreFailed(
            f"the local store {folder} could not be opened: {error}. See that stream.data_dir can "
            f"be written and its disk has room"
        ) from error
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _text(path) or "unknown"
                if time.monotonic() >= deadline:
                    raise StoreFailed(
                        f"the local store {folder} is used by another process (pid {holder}), "
                        f"which did not end within {seconds:g} s. Processes of one host share "
                        f"stream.data_dir only if the former one ends: end it, or give each a "
                        f"directory of its own"
                    ) from error
                if not told:
                    logger.warning("waiting for process %s to leave %s", holder, folder)
                    told = True
                await asyncio.sleep(_POLL_SECONDS)
            else:
                break
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
    except OSError as error:
        file.close()
        raise StoreFailed(f"the lock {path} could not be written: {error}") from error
    except BaseException:
        file.close()
        raise
    return file


def _folder(data_dir: str, *, group: str, partition: int) -> Path:
    name = quote(group, safe="")
    if not name.strip("."):
        # No group leads out of the directory.
        name = name.replace(".", "%2E")
    return Path(data_dir) / name / str(partition)


def _is_of_the_disk(error: Exception) -> bool:
    """Tell a disk that is full or at fault from files that are broken or missing."""
    text = str(error)
    return isinstance(error, OSError) or (
        text.startswith("IO error") and "No such file" not in text
    )


def _shown(identity: object) -> str:
    return identity.decode("utf-8", "replace") if isinstance(identity, bytes) else "nothing known"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
