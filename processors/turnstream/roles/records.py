"""How the small states of roles are stored: one JSON object per key, with a version in it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from turnstream.core.record import content_of, version_in, watermarks_in
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
        migrations: Mapping[int, Callable[[K], K]] | None = None,
        closed: Callable[[K], bool],
        timers: Callable[[K], Sequence[TimerDue]] = lambda _: (),
        kept_ms: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            adapter: reads and writes the state; it has a field `record_version`.
            version: the version that this program writes.
            migrations: older version to what makes its state one of ours; a version that is not
                among them cannot be read.
            closed: tells whether only the watermarks of a state matter any more.
            timers: the due times that a state waits for.
            kept_ms: longest time that a record is of use; see `StateUnreadable`.
        """
        self._adapter = adapter
        self._version = version
        self._migrations = migrations or {}
        self._closed = closed
        self._timers = timers
        self._kept_ms = kept_ms

    def load(self, value: bytes) -> K:
        """Read a record.

        Raises:
            StateTooNew: written by a newer version.
            StateUnreadable: of an older version without a migration, or not such a record.
        """
        content = content_of(value)
        version = version_in(content)
        if version is not None and version > self._version:
            raise StateTooNew(version)
        why = f"no migration to version {self._version}"
        if version is None:
            why = "not a state record: it names no version"
        elif version == self._version or version in self._migrations:
            try:
                state = self._adapter.validate_json(value)
                migrate = self._migrations.get(version)
                return state if migrate is None else migrate(state)
            except ValidationError as error:
                # Deeper places may be named by keys that a customer wrote.
                places = {
                    ".".join(map(str, fault["loc"][:2]))
                    for fault in error.errors(include_url=False, include_input=False)
                }
                why = f"a state record with faults at {', '.join(sorted(places))}"
        raise StateUnreadable(
            why,
            known=self._version,
            found=version,
            watermarks=watermarks_in(content),
            kept_ms=self._kept_ms,
        )

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
