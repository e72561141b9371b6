"""The committed records of a lane on this host's disk, so that a restart reads only what is new.

One directory for each group and partition, under `data_dir`:

    <group>/<partition>/         RocksDB: the records, the position, the changelog's identity
    <group>/<partition>.lock     held while a lane uses it; names the process that does
    <group>/<partition>.broken   what was found wrong while it was used: it is rebuilt

The files stay when the partition goes to another process: should it come back, only what was
written meanwhile is read. Those not used for longer than the changelog keeps removals are removed
at the next assignment on this host. The changelog is the truth: a store that does not fit it is
emptied, with an error in the log, and filled again. Nothing here waits for the disk (no fsync): the
records of a transaction and its position are one batch of RocksDB's log, so whatever a crash leaves
is a state that the changelog once had. What is not noticed: brokers that lose acknowledged records
(an unclean leader election) and grow past the position again under the same topic.
"""

from __future__ import annotations

import logging
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from rocksdict import Rdict, WriteBatch

from turnstream.stream.rocks_layout import (
    IDENTITY,
    IMPRINT,
    NO_POSITION,
    NUMBERS,
    POSITION,
    RECORD,
    identity_of,
    options,
)
from turnstream.stream.store import StoreFailed
from turnstream.stream.store_folder import (
    LOCK_SECONDS,
    folder_of,
    lock_folder,
    release_folder,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from io import TextIOWrapper
    from pathlib import Path

    from turnstream.stream.changelog import Changelog

logger = logging.getLogger(__name__)

_MARGIN_MS: Final = 3_600_000
"""Kept between a store's age and the end of the changelog's tombstones: two clocks, and the time
that a restore takes."""


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
        self._folder: Path = folder_of(partition, group=group, data_dir=data_dir)
        self._broken = self._folder.with_suffix(".broken")
        self._identity = identity_of(changelog, partition)
        self._lock = lock
        self._keys: set[bytes] | None = None
        """Keys with a record; known once the store has been read through."""
        self._position = NO_POSITION
        self._at = 0
        self._imprint: bytes | None = None
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
        return f"it was found broken: {text_of(self._broken)}" if self._broken.exists() else None

    def _open(self) -> str | None:
        """Open the files; return why they cannot be used.

        Raises:
            StoreFailed: The disk is at fault, not what is on it.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._db = Rdict(str(self._folder), options())
        except Exception as error:  # noqa: BLE001 - rocksdict raises nothing more exact
            if _is_of_the_disk(error):
                self._fail("opened", error)
            return f"it cannot be opened: {error}"
        return None

    def _mismatch(self, changelog: Changelog) -> str | None:
        """Return why what was opened does not fit the changelog."""
        db = self._opened()
        try:
            identity, numbers, imprint = db.get(IDENTITY), db.get(POSITION), db.get(IMPRINT)
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
        if not isinstance(numbers, bytes) or len(numbers) != NUMBERS.size:
            return "it has no position"
        self._position, self._at = NUMBERS.unpack(numbers)
        self._imprint = imprint if isinstance(imprint, bytes) and imprint else None
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
        self._position, self._at = NO_POSITION, _now_ms()
        self._doubt = self._imprint = None
        self._keys = set()
        batch = WriteBatch(raw_mode=True)
        batch.put(IDENTITY, self._identity)
        batch.put(POSITION, NUMBERS.pack(self._position, self._at))
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
        return None if self._position == NO_POSITION else self._position

    @property
    def doubt(self) -> str | None:
        """Why removals may have been missed, if anything was written beyond the position."""
        return self._doubt

    @property
    def imprint(self) -> bytes | None:
        """What the changelog says of itself."""
        return self._imprint

    def get(self, key: bytes) -> bytes | None:
        """Return the record of a key."""
        if self._keys is not None and key not in self._keys:
            return None
        with self._guarded("read") as db:
            value = db.get(RECORD + key)
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
            entries.seek(RECORD)
        while True:
            with self._guarded("read"):
                if not entries.valid():
                    entries.status()
                    break
                name, value = entries.key(), entries.value()
                entries.next()
            key = name[len(RECORD) :]
            keys.add(key)
            yield key, value
        self._keys = keys

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        *,
        position: int | None = None,
        at: int | None = None,
        imprint: bytes | None = None,
    ) -> None:
        """Write records and position in one batch; `None` removes a record."""
        batch = WriteBatch(raw_mode=True)
        for key, value in changes.items():
            if value is None:
                batch.delete(RECORD + key)
            else:
                batch.put(RECORD + key, value)
        if position is not None:
            self._position = position
            if at is not None:
                self._at, self._doubt = at, None
        batch.put(POSITION, NUMBERS.pack(self._position, self._at))
        if imprint is not None:
            self._imprint = imprint or None
            batch.put(IMPRINT, imprint)
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
        release_folder(self._lock)

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
    folder = folder_of(partition, group=group, data_dir=data_dir)
    lock = await lock_folder(folder, seconds=lock_seconds)
    try:
        return RocksRecords(group, partition, data_dir=data_dir, changelog=changelog, lock=lock)
    except BaseException:
        lock.close()
        raise


def _is_of_the_disk(error: Exception) -> bool:
    """Tell a disk that is full or at fault from files that are broken or missing."""
    text = str(error)
    return isinstance(error, OSError) or (
        text.startswith("IO error") and "No such file" not in text
    )


def _shown(identity: object) -> str:
    return identity.decode("utf-8", "replace") if isinstance(identity, bytes) else "nothing known"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
