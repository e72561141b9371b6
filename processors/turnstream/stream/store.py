"""State of one lane: what is committed, and what is handled and not yet committed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from turnstream.stream.role import Explained

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

S = TypeVar("S")


class StoreFailed(Explained):
    """A local store cannot be opened, read or written; the process ends.

    Nothing is lost with it: the changelog has every record, and the next start reads from there
    what the store does not have.
    """


class Records(Protocol):
    """The committed records of one lane: the changelog's last value of each key.

    Only what a committed transaction holds is ever written to it, in the changelog's order. So it
    may be behind the changelog, but never beside it.
    """

    @property
    def position(self) -> int | None:
        """Changelog offset below which all committed records are in here; `None` for none."""
        ...

    @property
    def doubt(self) -> str | None:
        """Why removals may have been missed, if anything was written beyond the position."""
        ...

    @property
    def imprint(self) -> bytes | None:
        """What the changelog says of itself, which is no record of a key; see `imprint`."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """Return the record of a key."""
        ...

    def __contains__(self, key: object) -> bool:
        """Tell whether a key has a record."""
        ...

    def __len__(self) -> int:
        """Return the number of records."""
        ...

    def items(self) -> Generator[tuple[bytes, bytes]]:
        """Yield every key with its record, one at a time; nothing is written meanwhile."""
        ...

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        *,
        position: int | None = None,
        at: int | None = None,
        imprint: bytes | None = None,
    ) -> None:
        """Write records, all of them or none; `None` removes one.

        Args:
            changes: Key to its new record.
            position: The changelog offset after the last of them; unchanged, when not given:
                then they are read once more after a restart, which changes nothing.
            at: A time (ms) at which nothing committed lay beyond the position; unknown, when not
                given.
            imprint: What the changelog says of itself from now on; empty for nothing any more,
                `None` for what it has said.

        Raises:
            StoreFailed: They could not be written.
        """
        ...

    def clear(self, reason: str, *, level: int = logging.ERROR) -> None:
        """Remove every record, because they do not belong to the changelog any more.

        Args:
            reason: Why, for the log.
            level: How loud it is there.
        """
        ...

    def close(self) -> None:
        """Give up files and locks; may be called again."""
        ...


class MemoryRecords:
    """`Records` in memory: as fast as can be, and read from the changelog at each assignment."""

    def __init__(self, records: Mapping[bytes, bytes] | None = None) -> None:
        self._records = dict(records or {})
        self._position: int | None = None
        self._imprint: bytes | None = None

    @property
    def position(self) -> int | None:
        """Changelog offset below which all committed records are in here."""
        return self._position

    @property
    def doubt(self) -> str | None:
        """None: all of it was read a moment ago."""
        return None

    @property
    def imprint(self) -> bytes | None:
        """What the changelog says of itself."""
        return self._imprint

    def get(self, key: bytes) -> bytes | None:
        """Return the record of a key."""
        return self._records.get(key)

    def __contains__(self, key: object) -> bool:
        """Tell whether a key has a record."""
        return key in self._records

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._records)

    def items(self) -> Generator[tuple[bytes, bytes]]:
        """Yield every key with its record."""
        yield from self._records.items()

    def write(
        self,
        changes: Mapping[bytes, bytes | None],
        *,
        position: int | None = None,
        at: int | None = None,
        imprint: bytes | None = None,
    ) -> None:
        """Write records; `None` removes one."""
        for key, value in changes.items():
            if value is None:
                self._records.pop(key, None)
            else:
                self._records[key] = value
        if position is not None:
            self._position = position
        if imprint is not None:
            self._imprint = imprint or None

    def clear(self, reason: str, *, level: int = logging.ERROR) -> None:
        """Remove every record."""
        self._records.clear()
        self._position = self._imprint = None

    def close(self) -> None:
        """Drop the records."""
        self._records = {}


class Store(Generic[S]):
    """The states of one lane, in two layers.

    Records as committed, and over them the states of finished inputs whose transaction is still
    to come. A later input of a key reads the upper layer. The upper layer is lost when the process
    ends, together with the transaction, so nothing is ever built on a state that cannot commit.

    Encoded records take a fraction of the memory of decoded ones; the decoded ones, those of the
    keys used last, are bounded.
    """

    def __init__(self, records: Records, *, load: Callable[[bytes], S], hot: int) -> None:
        """Lay the upper layer over the records.

        Args:
            records: As committed; closed with this.
            load: Decodes a record.
            hot: Bound of the decoded states.
        """
        self._records = records
        self._pending: dict[bytes, S | None] = {}
        self._hot: dict[bytes, S] = {}
        self._load = load
        self._hot_limit = hot

    def get(self, key: bytes) -> S | None:
        """Return the latest state of a key, committed or not."""
        if key in self._pending:
            return self._pending[key]
        state = self._hot.get(key)
        if state is None:
            value = self._records.get(key)
            if value is None:
                return None
            state = self._load(value)
            self._keep_hot(key, state)
        return state

    def put(self, key: bytes, state: S | None) -> None:
        """Set the uncommitted state of a key; `None` removes it."""
        self._pending[key] = state

    def commit(
        self,
        records: Mapping[bytes, bytes | None],
        *,
        states: Mapping[bytes, S | None],
        position: int | None = None,
        at: int | None = None,
        imprint: bytes | None = None,
    ) -> None:
        """Take note of a committed transaction.

        Args:
            records: Key to its record now; `None` if it has none.
            states: Key to the state that was committed, where the transaction had one.
            position: The changelog offset after the transaction's last record, where known.
            at: A time (ms) before the commit at which the lane was the changelog's only writer.
            imprint: What the changelog says of itself, where the transaction wrote it.

        Raises:
            StoreFailed: The records could not be written; the transaction stays committed.
        """
        self._records.write(records, position=position, at=at, imprint=imprint)
        pending = self._pending
        for key, value in records.items():
            self._hot.pop(key, None)
            state = states.get(key)
            if key in pending and pending[key] is state:
                del pending[key]
                if value is not None and state is not None:
                    self._keep_hot(key, state)

    @property
    def imprint(self) -> bytes | None:
        """What the changelog says of itself."""
        return self._records.imprint

    def has_record(self, key: bytes) -> bool:
        """Tell whether a committed record of the key exists."""
        return key in self._records

    def is_pending(self, key: bytes) -> bool:
        """Tell whether the key has an uncommitted state."""
        return key in self._pending

    def __len__(self) -> int:
        """Return the number of committed records."""
        return len(self._records)

    def close(self) -> None:
        """Close the records."""
        self._records.close()

    def _keep_hot(self, key: bytes, state: S) -> None:
        hot = self._hot
        if len(hot) >= self._hot_limit:
            del hot[next(iter(hot))]
        hot[key] = state
