"""How the small states of roles are stored: one JSON object per key, with a version in it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from turnstream.stream import StateTooNew, StateUnreadable, TimerDue


class Kept(Protocol):
    """A state that the stream can keep."""

    @property
    def watermarks(self) -> Mapping[str, int]:
        """Source topic to the highest offset handled."""
        ...


K = TypeVar("K", bound=Kept)


class RecordFormat(Generic[K]):
    """The stream's `StateFormat` for a state that is a dataclass of plain values."""

    def __init__(
        self,
        adapter: TypeAdapter[K],
        *,
        version: int,
        closed: Callable[[K], bool],
        timers: Callable[[K], Sequence[TimerDue]] = lambda _: (),
    ) -> None:
        """Prepare.

        Args:
            adapter: reads and writes the state; it has a field `record_version`.
            version: the newest version that this program reads.
            closed: tells whether only the watermarks of a state matter any more.
            timers: the due times that a state waits for.
        """
        self._adapter = adapter
        self._version = version
        self._closed = closed
        self._timers = timers

    def load(self, value: bytes) -> K:
        """Read a record.

        Raises:
            StateTooNew: written by a newer version.
            StateUnreadable: not such a record.
        """
        try:
            raw = orjson.loads(value)
            version = raw["record_version"]
            if isinstance(version, int) and version > self._version:
                raise StateTooNew(version)
            return self._adapter.validate_json(value)
        except (KeyError, TypeError, orjson.JSONDecodeError) as error:
            raise StateUnreadable(f"not a state record ({type(error).__name__})") from None
        except ValidationError as error:
            places = ", ".join(
                ".".join(map(str, fault["loc"]))
                for fault in error.errors(include_url=False, include_input=False)
            )
            raise StateUnreadable(f"a state record with faults at {places}") from None

    def dump(self, state: K) -> bytes:
        """Write a record."""
        return self._adapter.dump_json(state)

    def watermark(self, state: K, topic: str) -> int:
        """Highest offset of a topic that has been handled, -1 if none."""
        return state.watermarks.get(topic, -1)

    def watermarks(self, state: K) -> Mapping[str, int]:
        """All of them."""
        return state.watermarks

    def closed(self, state: K) -> bool:
        """Whether only the watermarks matter any more."""
        return self._closed(state)

    def timers(self, state: K) -> Sequence[TimerDue]:
        """The due times that a state waits for."""
        return self._timers(state)
