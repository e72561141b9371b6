"""A lane without a broker: a producer that keeps what it was given, a state, a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
from aiokafka.structs import ConsumerRecord, RecordMetadata, TopicPartition

from turnstream.stream.deadletter import DeadLetterTopic
from turnstream.stream.handler import (
    DeadLetter,
    ForAnotherRole,
    Handled,
    Publication,
    Rejected,
    StateTooNew,
    StateUnreadable,
    TimerDue,
    UnknownSchema,
)
from turnstream.stream.heartbeats import Heartbeats
from turnstream.stream.lane import Lane
from turnstream.stream.observer import NullObserver
from turnstream.stream.role import Role
from turnstream.stream.settings import StreamSettings
from turnstream.stream.source import Source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from turnstream.stream.handler import DeadLetterReason, LaneContext, Record

TURNS = "turns"
RESULTS = "results"
OUT = "out"
CHANGELOG = "changelog"
LETTERS = {
    topic: DeadLetterTopic(f"{topic}.dlq", partitions=2, max_bytes=1_100_000)
    for topic in (TURNS, RESULTS)
}


def settings(**changes: Any) -> StreamSettings:
    """Settings that never wait."""
    defaults: dict[str, Any] = {
        "bootstrap_servers": "nowhere:1",
        "role": "decide",
        "group": "group",
        "sources": (TURNS, RESULTS),
        "priority": frozenset({RESULTS}),
        "changelog": CHANGELOG,
        "commit_gap_ms": 0,
        "retry_backoff_ms": 1,
        "grace_seconds": 1.0,
    }
    return StreamSettings(**(defaults | changes))


def record(
    offset: int,
    *,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    topic: str = TURNS,
    partition: int = 0,
    timestamp: int = 1_000,
    headers: Sequence[tuple[str, bytes]] = (),
) -> Record:
    """Return a fetched record."""
    return ConsumerRecord(
        topic, partition, offset, timestamp, 0, key, value, None, 0, 0, tuple(headers)
    )


@dataclass(frozen=True)
class Tally:
    """The state of a key: what it has had so far."""

    seen: tuple[str, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    is_closed: bool = False
    due: tuple[TimerDue, ...] = ()

    def after(self, each: Record, **changes: Any) -> Tally:
        """Return the state after a record."""
        text = (each.value or b"").decode()
        marks = {**self.marks, each.topic: each.offset}
        return replace(self, seen=(*self.seen, text), marks=marks, **changes)


class TallyFormat:
    """`StateFormat` of `Tally`."""

    def load(self, value: bytes) -> Tally:
        """Read a tally; `new` is too new, `bad` unreadable, `bad 7` too, but for a watermark.

        `brief 7` is unreadable, too, and of use for 7 ms.
        """
        if value == b"new":
            raise StateTooNew(99)
        if value.startswith(b"brief"):
            message = "as told"
            raise StateUnreadable(message, kept_ms=int(value.split()[1]))
        if value.startswith(b"bad"):
            message = "as told"
            _, _, mark = value.partition(b" ")
            marks = {TURNS: int(mark)} if mark else None
            raise StateUnreadable(message, known=1, found=0, watermarks=marks)
        raw = orjson.loads(value)
        due = tuple(TimerDue(*each) for each in raw["due"])
        return Tally(tuple(raw["seen"]), raw["marks"], raw["closed"], due)

    def dump(self, state: Tally) -> bytes:
        """Write a tally."""
        due = [astuple(timer) for timer in state.due]
        return orjson.dumps(
            {"seen": state.seen, "marks": state.marks, "closed": state.is_closed, "due": due}
        )

    def watermark(self, state: Tally, topic: str) -> int:
        """Return a watermark."""
        return state.marks.get(topic, -1)

    def watermarks(self, state: Tally) -> Mapping[str, int]:
        """Return all watermarks."""
        return state.marks

    def closed(self, state: Tally) -> bool:
        """Tell whether it is closed."""
        return state.is_closed

    def timers(self, state: Tally) -> Sequence[TimerDue]:
        """Return its timers."""
        return state.due


class Script:
    """A handler that does what a record's value says, else tallies it.

    `wait...` waits until `gates[value]` is set; `fail...` raises; `fail2...` twice only; `reject`,
    `reject alone`, `another's` and `schema` do so at admission; `close...` closes the state;
    `stale...` forgets its watermark; `big...` makes a state too large, `long...` a publication;
    `letter...` asks for a dead letter; `timer ID AT` sets a timer; `expire AT` ends the state then.
    """

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = {}
        self.schemas: set[str] = set()
        self.calls: list[tuple[str, str]] = []
        self.abandon_fails = False
        self.running = 0
        self.most_running = 0

    def admit(self, record: Record) -> tuple[bytes, str]:
        """Decode."""
        text = (record.value or b"").decode()
        if text == "reject":
            raise Rejected("malformed", "as told")
        if text == "reject alone":
            raise Rejected("invalid", "as told", by_this_role_alone=True)
        if text == "another's":
            raise ForAnotherRole
        if text == "admit bug":
            message = "secret text"
            raise RuntimeError(message)
        if text.startswith("schema") and text not in self.schemas:
            raise UnknownSchema(text)
        return record.key or b"", text

    def handle(
        self, record: Record, event: str, state: Tally | None, lane: LaneContext[Tally]
    ) -> Handled[Tally] | Awaitable[Handled[Tally]]:
        """Do as told."""
        self.calls.append(("handle", event))
        if event.startswith("wait"):
            return self._wait(record, event, state)
        if event.startswith("interim"):
            return self._interim(record, state, lane)
        if event.startswith("cancel"):
            return self._cancelled()
        return self._tally(record, event, state)

    async def _wait(self, record: Record, event: str, state: Tally | None) -> Handled[Tally]:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await self.gates.setdefault(event, asyncio.Event()).wait()
        finally:
            self.running -= 1
        return self._tally(record, event, state)

    async def _interim(
        self, record: Record, state: Tally | None, lane: LaneContext[Tally]
    ) -> Handled[Tally]:
        started = replace(state or Tally(), seen=("started",))
        await lane.commit(record.key or b"", started, (Publication(OUT, b"k", b"started"),))
        self.calls.append(("committed", "started"))
        return Handled(started.after(record))

    async def _cancelled(self) -> Handled[Tally]:
        raise asyncio.CancelledError

    def _tally(self, record: Record, event: str, state: Tally | None) -> Handled[Tally]:
        failures = [call for call in self.calls if call == ("handle", event)]
        if event.startswith("fail2") and len(failures) <= 2:
            message = "not yet"
            raise RuntimeError(message)
        if event.startswith("fail") and not event.startswith("fail2"):
            message = "secret text"
            raise RuntimeError(message)
        after = (state or Tally()).after(record)
        if event.startswith("stale"):
            after = replace(after, marks={})
        if event.startswith("close"):
            after = replace(after, is_closed=True)
        if event.startswith("big"):
            after = replace(after, seen=("x" * 2_000_000,))
        if event.startswith("expire"):
            after = replace(after, due=(TimerDue("end", "expiry", int(event.split()[1])),))
        if event.startswith("timer"):
            _, name, at = event.split()
            after = replace(after, due=(TimerDue(name, "reminder", int(at)),))
        if event.startswith("letter"):
            return Handled(after, dead_letter=DeadLetter("invalid"))
        out = b"x" * 2_000_000 if event.startswith("long") else event.encode()
        return Handled(after, (Publication(OUT, record.key or b"", out),))

    def flood(self, record: Record, event: str, state: Tally | None) -> Handled[Tally]:
        """Tally."""
        self.calls.append(("flood", event))
        return Handled((state or Tally()).after(record))

    def abandon(
        self,
        record: Record,
        event: str,
        state: Tally | None,
        *,
        attempts: int,
        error: BaseException,
    ) -> Handled[Tally]:
        """Tally, or fail as well."""
        self.calls.append(("abandon", event))
        if self.abandon_fails:
            message = "abandon fails too"
            raise RuntimeError(message)
        if isinstance(error, StateUnreadable):
            assert state is None
            state = Tally(("lost",), error.watermarks)
        return Handled((state or Tally()).after(record))

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Learn the schema the second time."""
        self.calls.append(("resolve", fingerprint))
        if ("resolve", fingerprint) in self.calls[:-1]:
            self.schemas.add(fingerprint)
            return True
        return False

    def timer(self, key: bytes, timer: TimerDue) -> Publication | None:
        """Publish the timer's name; an expiry ends the state."""
        if timer.kind == "expiry":
            return None
        return Publication("timers", key, timer.timer_id.encode())


class FakeBatch:
    """Keeps records."""

    def __init__(self, limit: int) -> None:
        self.records: list[tuple[bytes | None, bytes | None]] = []
        self._limit = limit

    def append(
        self, *, timestamp: int | None, key: bytes | None, value: bytes | None, headers: list[Any]
    ) -> object | None:
        """Add a record unless the batch is full."""
        if len(self.records) >= self._limit:
            return None
        self.records.append((key, value))
        return True

    def record_count(self) -> int:
        """Count."""
        return len(self.records)


@dataclass
class Transaction:
    """One committed transaction."""

    records: dict[str, list[tuple[bytes | None, bytes | None]]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)


class FakeProducer:
    """A transactional producer that keeps what was committed."""

    def __init__(self, *, batch_limit: int = 100) -> None:
        self.log: list[str] = []
        self.committed: list[Transaction] = []
        self.refuse: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.ends: dict[str, int] = {}
        """Topic to its end offset; a marker follows each transaction."""
        self.offsets_told = True
        self._batch_limit = batch_limit
        self._open: Transaction | None = None

    async def start(self) -> None:
        """Fence."""
        self.log.append("start")

    async def stop(self) -> None:
        """Close."""
        self.log.append("stop")

    async def begin_transaction(self) -> None:
        """Begin."""
        assert self._open is None
        self._open = Transaction()
        if self.gate is not None:
            await self.gate.wait()

    def create_batch(self) -> FakeBatch:
        """Return a batch."""
        return FakeBatch(self._batch_limit)

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> asyncio.Future[Any]:
        """Keep a batch, or refuse it."""
        assert self._open is not None
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.refuse is not None:
            result.set_exception(self.refuse)
        else:
            self._open.records.setdefault(topic, []).extend(batch.records)
            base = self.ends.get(topic, 0)
            self.ends[topic] = base + len(batch.records)
            tp = TopicPartition(topic, partition)
            told = base if self.offsets_told else -1
            result.set_result(RecordMetadata(topic, partition, tp, told, None, 0, 0))
        return result

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group_id: str
    ) -> None:
        """Keep the offsets."""
        assert self._open is not None
        self._open.offsets = {tp.topic: offset for tp, offset in offsets.items()}

    async def commit_transaction(self) -> None:
        """Commit."""
        assert self._open is not None
        for topic in self._open.records:
            self.ends[topic] += 1
        self.committed.append(self._open)
        self._open = None

    def sent(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Return everything committed to a topic."""
        return [each for one in self.committed for each in one.records.get(topic, [])]

    def offsets(self) -> dict[str, int]:
        """Return the last committed offset of each topic."""
        merged: dict[str, int] = {}
        for one in self.committed:
            merged |= one.offsets
        return merged


class CountingObserver(NullObserver):
    """Keeps what tests look at."""

    def __init__(self) -> None:
        self.skips = 0
        self.letters: list[tuple[str, DeadLetterReason]] = []
        self.retries = 0
        self.parked_keys = 0
        self.unreadable_keys: list[int] = []
        self.holds: list[bool] = []
        self.pauses: list[tuple[str, bool]] = []
        self.losses: list[tuple[str, int]] = []
        self.fulls: list[bool] = []

    def skipped(self, topic: str) -> None:
        """Count."""
        self.skips += 1

    def dead_lettered(self, topic: str, reason: DeadLetterReason) -> None:
        """Keep."""
        self.letters.append((topic, reason))

    def lost(self, topic: str, count: int) -> None:
        """Keep."""
        self.losses.append((topic, count))

    def retried(self, topic: str) -> None:
        """Count."""
        self.retries += 1

    def parked(self, partition: int, keys: int) -> None:
        """Keep."""
        self.parked_keys = keys

    def unreadable(self, partition: int, keys: int) -> None:
        """Keep how it went."""
        if self.unreadable_keys[-1:] != [keys]:
            self.unreadable_keys.append(keys)

    def full(self, partition: int, full: bool) -> None:
        """Keep."""
        self.fulls.append(full)

    def held(self, topic: str, partition: int, held: bool) -> None:
        """Keep."""
        self.holds.append(held)

    def paused(self, topic: str, partition: int, paused: bool) -> None:
        """Keep."""
        self.pauses.append((topic, paused))


@dataclass
class Failures:
    """Stands for the end of the process."""

    errors: list[BaseException] = field(default_factory=list)

    def __call__(self, error: BaseException) -> None:
        """Keep the reason."""
        self.errors.append(error)


@dataclass
class Clock:
    """A clock that tests set."""

    now: int = 0

    def __call__(self) -> int:
        """Return the time."""
        return self.now


@dataclass
class Bench:
    """A role on fakes."""

    settings: StreamSettings = field(default_factory=settings)
    script: Script = field(default_factory=Script)
    observer: CountingObserver = field(default_factory=CountingObserver)
    failures: Failures = field(default_factory=Failures)
    clock: Clock = field(default_factory=Clock)
    producer: FakeProducer = field(default_factory=FakeProducer)

    def role(self, *, heartbeats: Heartbeats | None = None) -> Role[Tally]:
        """Return the role."""
        return Role(
            self.settings,
            self.script,
            TallyFormat(),
            self.observer,
            now_ms=self.clock,
            heartbeats=heartbeats or Heartbeats(),
            fail=self.failures,
        )

    def lane(
        self,
        *,
        progressed: Callable[[Source[Tally]], None] | None = None,
        heartbeats: Heartbeats | None = None,
        imprint: bytes | None = None,
    ) -> Lane[Tally]:
        """Return a lane that is not started."""
        return Lane(
            0,
            role=self.role(heartbeats=heartbeats),
            producer=self.producer,
            dead_letter_topics=LETTERS,
            progressed=progressed or (lambda _: None),
            imprint=imprint,
        )

    def sources(self, *, start: int = 0) -> dict[str, Source[Tally]]:
        """Return the sources of partition 0."""
        return {
            topic: Source(topic, partition=0, priority=topic == RESULTS, start=start)
            for topic in self.settings.sources
        }


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until a condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - there is no event for what is looked at
            await asyncio.sleep(0.001)
