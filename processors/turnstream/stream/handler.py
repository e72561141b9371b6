"""What a role gives to the stream, and what it gets from it.

A role is a `Handler` and a `StateFormat`. The stream delivers each record of the role's source
topics to the handler, one at a time per key, together with the key's state, and commits what the
handler returns - the new state, the records to publish, the source offset - in one transaction.
The stream knows nothing of what the records mean.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from types import GeneratorType
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from turnstream.core.evolution import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiokafka.structs import ConsumerRecord

Record: TypeAlias = "ConsumerRecord[bytes, bytes]"
"""A fetched source record; key and value may be `None`."""

Headers: TypeAlias = tuple[tuple[str, bytes], ...]

DeadLetterReason = Literal[
    "missing_key",
    "missing_value",
    "oversized",
    "malformed",
    "invalid",
    "wrong_partition",
    "content_mismatch",
    "unsupported",
    "expired",
    "flood",
    "state_too_large",
    "output_too_large",
    "state_unreadable",
    "handler_failed",
]
"""Why a record was dead-lettered: a closed list, because it becomes a metric label.

`malformed` could not be decoded; `invalid` was decoded and breaks a rule; `content_mismatch`
repeats an id with another content; `state_too_large` and `output_too_large` would have led to
what cannot be stored or published; `state_unreadable` was the next record of a key whose state
cannot be read; `handler_failed` used up its attempts.
"""

S = TypeVar("S")
E = TypeVar("E")
S_co = TypeVar("S_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Publication:
    """A record to publish in the lane's transaction, on the lane's partition number."""

    topic: str
    """Physical topic name."""
    key: bytes
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Asks the stream to copy the source record, bytes untouched, to `<topic>.dlq`."""

    reason: DeadLetterReason
    detail: str = ""
    """One line for the operator; goes to a header. Never a customer's text, never a secret."""


@dataclass(frozen=True, slots=True)
class Handled(Generic[S_co]):
    """What an input led to; committed as a whole with the offset of its record."""

    state: S_co | None
    """The key's new state, its watermark moved to the record's offset; `None` keeps no record.

    With `None` nothing remembers the input until the committed offsets pass it: after a crash it
    may be handled again. Publish only together with a state that carries the watermark.
    """
    publications: Sequence[Publication] = ()
    dead_letter: DeadLetter | None = None


@dataclass(frozen=True, slots=True)
class TimerDue:
    """A timer that a state holds."""

    timer_id: str
    """Unique among the timers of one key."""
    kind: str
    due_at: int
    """Milliseconds since the epoch, UTC."""
    after_backlog: bool = False
    """Whether everything older is handled first even where a full lane's timers would overtake
    it."""


Ending: TypeAlias = Handled[S] | Awaitable[Handled[S]]
"""How a handler answers: at once, or after a wait."""

Stages: TypeAlias = Generator[None, None, Ending[S]]
"""Work that needs no waiting, cut where another kind of work begins.

The stream takes a chunk of records through one stage before it goes on to the next, so that the
code and the tables of a stage stay in the processor's cache from one record to the next.
"""


def concluded(work: Ending[S] | Stages[S]) -> Ending[S]:
    """Take one record through all its stages."""
    if not isinstance(work, GeneratorType):
        return cast("Ending[S]", work)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast("Ending[S]", end.value)


class Rejected(Exception):
    """The record can never be handled: it is dead-lettered and the partition goes on."""

    def __init__(
        self, reason: DeadLetterReason, detail: str = "", *, by_this_role_alone: bool = False
    ) -> None:
        """Say why.

        Args:
            reason: Why.
            detail: One line for the operator, as of a `DeadLetter`.
            by_this_role_alone: Every role that reads the record refuses it too, unless this is
                said: then no other role has a dead letter of it, or is given it again.
        """
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: DeadLetterReason = reason
        self.detail = detail
        self.by_this_role_alone = by_this_role_alone


class ForAnotherRole(Exception):
    """The record was replayed for another role, this one has seen it: it ends unhandled."""


class UnknownSchema(Exception):
    """The record's schema is not known yet: its partition waits until it is, never dead-lettered.

    Publish the writer's schema, or deploy a version that packages it.
    """

    def __init__(self, fingerprint: str) -> None:
        super().__init__(f"unknown schema {fingerprint}")
        self.fingerprint = fingerprint


class StateTooNew(Exception):
    """A state record was written by a newer version: the key is parked until that version runs."""

    def __init__(self, version: int) -> None:
        super().__init__(f"state record version {version} is newer than this program")
        self.version = version


class StateUnreadable(Exception):
    """A state record is of an older version without a migration, or no such record at all.

    Its key's next record is given up (:meth:`Handler.abandon`, with this error). To keep the state,
    stop the role before that and run the version that wrote it, or restore the changelog.
    """

    def __init__(
        self,
        message: str,
        *,
        known: int | None = None,
        found: int | None = None,
        watermarks: Mapping[str, int] | None = None,
        kept_ms: int | None = None,
    ) -> None:
        """Say what is wrong.

        Args:
            message: what is wrong; never a value of the record, for it is logged.
            known: the version that this program reads.
            found: the record's version, where it could be made out.
            watermarks: source topic to the highest offset handled, as far as it could be made out.
            kept_ms: how long the record is of use, counted from when it is found: then it is
                removed, once all records that were there before have been handled. None: until
                the key's next record comes, however long that takes.
        """
        super().__init__(message)
        self.known = known
        self.found = found
        self.watermarks: Mapping[str, int] = watermarks or {}
        self.kept_ms = kept_ms


class LaneClosing(Exception):
    """The partition is given up: the input is not finished here, its next owner handles it again.

    A handler lets it pass.
    """


class LaneContext(Protocol[S_contra]):
    """What a handler may use of its lane while it runs."""

    @property
    def partition(self) -> int:
        """The lane's partition number, the same in every source topic."""
        ...

    async def commit(
        self, key: bytes, state: S_contra, publications: Sequence[Publication] = ()
    ) -> None:
        """Commit an intermediate state of the handler's own key; no offset moves.

        Returns when the transaction is committed. `key` must be the key being handled.
        """
        ...

    def ensure_owned(self) -> None:
        """Be sure that no other process has the partition: call it right before a side effect.

        Where the group's coordinator has not been heard of for too long the process ends, for
        another one may be at work on the same input. Any thread may call it.
        """
        ...

    def passed(self, topic: str, offset: int) -> bool:
        """Whether all of a source topic up to an offset has been handled, here or before.

        Nothing at or below it will come any more, whatever a state still knows of it.
        """
        ...

    async def rest(self, seconds: float) -> None:
        """Wait between two attempts, without the slot: others run meanwhile.

        It may take longer than asked for: the handler goes on when a slot is free again.

        Raises:
            LaneClosing: The partition is given up.
        """
        ...


class Handler(Protocol[S, E]):
    """The work of a role.

    `admit`, `flood`, `abandon` and `timer` do no I/O. Everything but `admit` is called for one
    record of a key at a time.
    """

    def admit(self, record: Record) -> tuple[bytes, E]:
        """Decode a record: its state key and the event.

        Raises:
            Rejected: The record can never be handled (no key, no value, too large, malformed).
            ForAnotherRole: The record is none of this role's.
            UnknownSchema: Its schema must be looked up first.
        """
        ...

    def handle(
        self, record: Record, event: E, state: S | None, lane: LaneContext[S]
    ) -> Ending[S] | Stages[S]:
        """Handle one event on the key's state.

        Return `Handled` at once when no I/O is needed: then no task is made. Otherwise return an
        awaitable; it runs as the one task of its key, in one of the slots. A generator does either
        at its end.
        An exception is retried with the same state; see `abandon`.
        """
        ...

    def flood(self, record: Record, event: E, state: S | None) -> Handled[S]:
        """Handle an event of a key that has more queued than `max_queued_per_key`.

        Called in order, in place of `handle`, for everything queued at that time.
        """
        ...

    def abandon(
        self, record: Record, event: E, state: S | None, *, attempts: int, error: BaseException
    ) -> Handled[S]:
        """Give the outcome of an event whose attempts are used up; the stream dead-letters it.

        With :class:`StateUnreadable` as the error the event has not been tried, and `state` is
        `None` although the key has one: whatever the new state is, it must not pass for a fresh
        start. It must carry the error's watermarks.
        """
        ...

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Look up a schema that `admit` did not know; true: `admit` is tried again at once."""
        ...

    def timer(self, key: bytes, timer: TimerDue) -> Publication | None:
        """Give the record to publish when a timer in the key's state is due.

        None: the state has no more use, and its record is removed.
        """
        ...


class StateFormat(Protocol[S]):
    """How a role's state is stored, and what the stream must know of it."""

    def load(self, value: bytes) -> S:
        """Read a state record.

        Raises:
            StateTooNew: Written by a newer version.
            StateUnreadable: Written by an older version and not migrated, or not a state record.
        """
        ...

    def dump(self, state: S) -> bytes:
        """Write a state record."""
        ...

    def watermark(self, state: S, topic: str) -> int:
        """Return the highest offset of that source topic already handled; -1 if none."""
        ...

    def watermarks(self, state: S) -> Mapping[str, int]:
        """Return all watermarks: source topic to offset."""
        ...

    def closed(self, state: S) -> bool:
        """Tell whether only the watermarks matter any more.

        The record of a closed state is removed as soon as committed offsets have passed them.
        """
        ...

    def timers(self, state: S) -> Sequence[TimerDue]:
        """Return the timers that the state holds."""
        ...
