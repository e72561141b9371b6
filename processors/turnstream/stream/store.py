"""State of one lane: what is committed, and what is handled and not yet committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

S = TypeVar("S")


class Store(Protocol[S]):
    """State records of one lane.

    Two layers: records as committed, and over them the states of finished inputs whose
    transaction is still to come. A later input of a key reads the upper layer. Both layers are
    lost together when the process ends, so nothing is ever built on a state that cannot commit.
    """

    def get(self, key: bytes) -> S | None:
        """Return the latest state of a key, committed or not."""
        ...

    def put(self, key: bytes, state: S | None) -> None:
        """Set the uncommitted state of a key; `None` removes it."""
        ...

    def commit(self, key: bytes, *, state: S | None, value: bytes | None) -> None:
        """Record that `state` was committed as `value`; `None` if it has no record now."""
        ...

    def has_record(self, key: bytes) -> bool:
        """Tell whether a committed record of the key exists."""
        ...

    def is_pending(self, key: bytes) -> bool:
        """Tell whether the key has an uncommitted state."""
        ...

    def __len__(self) -> int:
        """Return the number of committed records."""
        ...


class MemoryStore(Generic[S]):
    """A `Store` in memory: encoded records, plus decoded states of the keys used last.

    Encoded records take a fraction of the memory of decoded ones; the decoded ones are bounded.
    """

    def __init__(
        self, records: Iterable[tuple[bytes, bytes]] = (), *, load: Callable[[bytes], S], hot: int
    ) -> None:
        self._records: dict[bytes, bytes] = dict(records)
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

    def commit(self, key: bytes, *, state: S | None, value: bytes | None) -> None:
        """Record that `state` was committed as `value`; `None` if it has no record now."""
        if value is None:
            self._records.pop(key, None)
        else:
            self._records[key] = value
        self._hot.pop(key, None)
        pending = self._pending
        if key in pending and pending[key] is state:
            del pending[key]
            if value is not None and state is not None:
                self._keep_hot(key, state)

    def has_record(self, key: bytes) -> bool:
        """Tell whether a committed record of the key exists."""
        return key in self._records

    def is_pending(self, key: bytes) -> bool:
        """Tell whether the key has an uncommitted state."""
        return key in self._pending

    def __len__(self) -> int:
        """Return the number of committed records."""
        return len(self._records)

    def _keep_hot(self, key: bytes, state: S) -> None:
        hot = self._hot
        if len(hot) >= self._hot_limit:
            del hot[next(iter(hot))]
        hot[key] = state
