"""A worker with a counting handler, run as a process of its own by the lane tests.

Usage: `python lane_worker.py OPTIONS`, where OPTIONS is a JSON object of `StreamSettings` fields
plus `out` (topic to publish to), `delays_ms` (the handler's waits; none: it answers at once),
`port_file` (where to write the port of its metrics; none: it serves none), `changelog_format`
(what it takes for the newest format of a changelog; none: what it is) and `idle_ticks` (between two
looks at the ends of idle partitions; none: as many as there are).
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
from prometheus_client import CollectorRegistry

from turnstream.metrics import Metrics, MetricsServer
from turnstream.stream import imprint, ownership
from turnstream.stream.app import build_app, run_worker
from turnstream.stream.handler import (
    Handled,
    Publication,
    Rejected,
    StateUnreadable,
    TimerDue,
)
from turnstream.stream.settings import StreamSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from turnstream.stream.handler import LaneContext, Record
    from turnstream.stream.observer import Observer


@dataclass(frozen=True, slots=True)
class Count:
    """How many inputs a key has had."""

    count: int
    watermarks: Mapping[str, int]
    remind_at: int | None = None


class CountFormat:
    """`StateFormat` of `Count`."""

    def load(self, value: bytes) -> Count:
        """Read a count."""
        try:
            raw = orjson.loads(value)
            return Count(raw["count"], raw["watermarks"], raw["remind_at"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateUnreadable(repr(error)) from error

    def dump(self, state: Count) -> bytes:
        """Write a count."""
        return orjson.dumps(
            {
                "count": state.count,
                "watermarks": state.watermarks,
                "remind_at": state.remind_at,
            }
        )

    def watermark(self, state: Count, topic: str) -> int:
        """Return the watermark of a topic."""
        return state.watermarks.get(topic, -1)

    def watermarks(self, state: Count) -> Mapping[str, int]:
        """Return all watermarks."""
        return state.watermarks

    def closed(self, state: Count) -> bool:
        """Tell that a count stays."""
        return False

    def timers(self, state: Count) -> Sequence[TimerDue]:
        """Return the reminder, if there is one."""
        if state.remind_at is None:
            return ()
        return (TimerDue("reminder", "reminder", state.remind_at),)


class Counter:
    """Counts the inputs of each key and publishes each with its number."""

    def __init__(self, out: str, *, delays_ms: Sequence[int]) -> None:
        self._out = out
        self._delays = delays_ms

    def admit(self, record: Record) -> tuple[bytes, bytes]:
        """Take any record with a key and a value."""
        if record.key is None:
            raise Rejected("missing_key")
        if record.value is None:
            raise Rejected("missing_value")
        return record.key, record.value

    def handle(
        self, record: Record, event: bytes, state: Count | None, lane: LaneContext[Count]
    ) -> Handled[Count] | Awaitable[Handled[Count]]:
        """Count at once, or after a while."""
        if self._delays and b"slow" in event:
            return self._later(record, event, state)
        return self._count(record, event, state)

    async def _later(self, record: Record, event: bytes, state: Count | None) -> Handled[Count]:
        choice = random.Random(record.offset * 7 + record.partition)
        await asyncio.sleep(choice.choice(self._delays) / 1000)
        return self._count(record, event, state)

    def _count(self, record: Record, event: bytes, state: Count | None) -> Handled[Count]:
        if event.startswith(b"bug"):
            message = "a fault in the handler"
            raise RuntimeError(message)
        count = 1 if state is None else state.count + 1
        watermarks = {} if state is None else dict(state.watermarks)
        watermarks[record.topic] = record.offset
        key = record.key or b""
        value = orjson.dumps(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "key": key.decode(),
                "count": count,
            }
        )
        remind_at = None if state is None else state.remind_at
        if event.startswith(b"remind"):
            remind_at = record.timestamp + int(event.split()[1])
        return Handled(Count(count, watermarks, remind_at), (Publication(self._out, key, value),))

    def flood(self, record: Record, event: bytes, state: Count | None) -> Handled[Count]:
        """Count."""
        return self._count(record, event, state)

    def abandon(
        self,
        record: Record,
        event: bytes,
        state: Count | None,
        *,
        attempts: int,
        error: BaseException,
    ) -> Handled[Count]:
        """Count without publishing."""
        return Handled(self._count(record, b"", state).state)

    async def resolve_schema(self, fingerprint: str) -> bool:
        """Know all schemas."""
        return True

    def timer(self, key: bytes, timer: TimerDue) -> Publication:
        """Give the timer's record."""
        return Publication(self._out, key, timer.timer_id.encode())


def main(options: dict[str, Any]) -> None:
    """Run the worker until it is stopped."""
    logging.basicConfig(level=options.pop("log", "INFO"), format="%(asctime)s %(name)s %(message)s")
    out = options.pop("out")
    delays = options.pop("delays_ms", ())
    port_file = options.pop("port_file", None)
    if (newest := options.pop("changelog_format", None)) is not None:
        setattr(imprint, "FORMAT", newest)  # noqa: B010 - final there
    if (ticks := options.pop("idle_ticks", None)) is not None:
        setattr(ownership, "_IDLE_TICKS", ticks)  # noqa: B010 - final there
    options["role"] = "decide"
    options["sources"] = tuple(options["sources"])
    options["priority"] = frozenset(options.get("priority", ()))
    if "writes" in options:
        options["writes"] = frozenset(options["writes"])
    registry = CollectorRegistry()
    metrics = Metrics(registry, topics={topic: topic for topic in options["sources"]})
    app = build_app(
        StreamSettings(**options),
        handler=Counter(out, delays_ms=delays),
        state_format=CountFormat(),
        observer=cast("Observer", metrics),
    )
    if port_file is not None:
        Path(port_file).write_text(str(MetricsServer(registry).port))
    run_worker(app)


if __name__ == "__main__":
    main(orjson.loads(sys.argv[1]))
