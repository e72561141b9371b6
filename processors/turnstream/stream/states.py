"""The states of a lane's keys: stored, indexed by their timers, removed once closed and passed."""

from __future__ import annotations

import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from turnstream.stream.closing import ClosedKeys
from turnstream.stream.handler import StateTooNew, StateUnreadable, TimerDue
from turnstream.stream.role import StartRefused
from turnstream.stream.store import MemoryRecords, Store
from turnstream.stream.timers import TimerIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from turnstream.stream.handler import StateFormat
    from turnstream.stream.settings import StreamSettings
    from turnstream.stream.source import Work
    from turnstream.stream.store import Records

S = TypeVar("S")

logger = logging.getLogger(__name__)

_NAMED_KEYS: Final = 100
"""Keys with an unreadable state that are logged one by one as a lane opens: after an upgrade that
reads none of them, a line for each would hold up the rebalance. Each is logged when it is lost."""

_STEP: Final = 500
"""States read before others get their turn: with many, the process would neither answer nor stop
for seconds."""


class States(Generic[S]):
    """What a lane knows of its keys."""

    def __init__(self, state_format: StateFormat[S], *, settings: StreamSettings) -> None:
        self._format = state_format
        self._settings = settings
        self.store = self._store_of(MemoryRecords())
        self.timers = TimerIndex()
        self._late_timers = TimerIndex()
        """Those that never overtake a backlog: among the others, the many of a full lane that wait
        would be looked at again and again, before any that need not wait."""
        self.parked: set[bytes] = set()
        """Keys whose state was written by a newer version: none of their records is touched."""
        self.unreadable: dict[bytes, StateUnreadable] = {}
        """Keys whose state cannot be read: the record stays until their next one is given up, or
        until it is of no use."""
        self._removals: dict[bytes, TimerDue] = {}
        """When the latter is, for those of them that are not of use for ever."""
        self.unsettled: set[bytes] = set()
        """Keys whose record was found as the lane opened and goes only by what is still to be read:
        by the key's own next record, or once everything before it is handled."""
        self.handled: dict[str, int] = {}
        """Source topic to the highest offset that the states found as the lane opened know."""
        self._closed = ClosedKeys()
        self._forgettable: deque[bytes] = deque()
        """Closed keys that nothing needs any more: removed in one of the next transactions."""
        self._expired: dict[bytes, None] = {}
        """Keys whose time is over, in order: looked at in one of the next transactions."""
        self._expiring: set[bytes] = set()
        """Those of them that wait, among the closed ones, for the committed offsets."""

    def loading(
        self,
        records: Records,
        *,
        partition: int,
        ends: Mapping[str, int],
        now: int,
        note: Callable[[bytes, S], None] | None = None,
    ) -> Generator[None]:
        """Take over the committed state, in steps: an iterator that must be run to its end.

        A record that is not of the present version never stops the others. A newer one parks its
        key. Anything else that cannot be read - an older version without a migration, bytes that
        are no record - is an error with the key's name; the key's next record is given up with it.

        Args:
            records: The changelog's last value of each key; read through once, one at a time,
                kept, and closed with the states.
            partition: The lane's partition number, for messages.
            ends: Source topic to the end offset of this lane's partition.
            now: Milliseconds UTC.
            note: Told each state.

        Raises:
            StartRefused: A record knows offsets that its topic does not have.
        """
        self.store = self._store_of(records)
        # Prefixes are not known yet: closed keys wait at least for the first transaction.
        nothing_finished = dict.fromkeys(self._settings.sources, 0)
        for number, (key, value) in enumerate(records.items(), start=1):
            if not number % _STEP:
                yield
            try:
                state = self._format.load(value)
            except StateTooNew:
                self.parked.add(key)
                self.unsettled.add(key)
                continue
            except StateUnreadable as error:
                self._lose(key, error, partition=partition, ends=ends)
                self.unsettled.add(key)
                if error.kept_ms is not None:
                    due = TimerDue("removal", "removal", now + error.kept_ms, after_backlog=True)
                    self._removals[key] = due
                    self._schedule(key, (due,))
                continue
            if note is not None:
                note(key, state)
            watermarks = self._format.watermarks(state)
            _check_watermarks(watermarks, partition=partition, ends=ends)
            for topic, offset in watermarks.items():
                self.handled[topic] = max(offset, self.handled.get(topic, offset))
            if not self._format.closed(state):
                timers = self._format.timers(state)
                self._schedule(key, timers)
                if any(timer.after_backlog for timer in timers):
                    self.unsettled.add(key)
            elif not self._closed.wait(key, watermarks=watermarks, prefixes=nothing_finished):
                self._forgettable.append(key)
        if len(self.unreadable) > _NAMED_KEYS:
            logger.error(
                "changelog %r partition %s: %s states cannot be read, %s of them not named here",
                self._settings.changelog,
                partition,
                len(self.unreadable),
                len(self.unreadable) - _NAMED_KEYS,
            )

    def close(self) -> None:
        """Give up what the records hold open."""
        self.store.close()

    def _store_of(self, records: Records) -> Store[S]:
        return Store(records, load=self._format.load, hot=self._settings.hot_states)

    def _lose(
        self, key: bytes, error: StateUnreadable, *, partition: int, ends: Mapping[str, int]
    ) -> None:
        """Take note of a key whose record cannot be read."""
        # A made-up watermark would pass the key's records over for ever, without a word.
        watermarks = {
            topic: offset
            for topic, offset in error.watermarks.items()
            if 0 <= offset < ends.get(topic, 0)
        }
        # A new exception, because a raised one holds on to the frames that had the record.
        self.unreadable[key] = StateUnreadable(
            str(error),
            known=error.known,
            found=error.found,
            watermarks=watermarks,
            kept_ms=error.kept_ms,
        )
        if len(self.unreadable) <= _NAMED_KEYS:
            logger.error(
                "changelog %r partition %s: the state of %r cannot be read (%s; version found: %s, "
                "version known: %s). It is left as it is until the key's next record, which is "
                "given up with it%s: run the version that wrote it, or restore the topic before",
                self._settings.changelog,
                partition,
                key.decode("utf-8", "replace"),
                error,
                "none" if error.found is None else error.found,
                "unnamed" if error.known is None else error.known,
                ""
                if error.kept_ms is None
                else f", or for {error.kept_ms / 1000:g} s, after which it is of no use",
            )

    def encode(self, state: S) -> bytes | None:
        """Return a state's record; `None` for a closed one, which may never be written."""
        return None if self._format.closed(state) else self._format.dump(state)

    def expire(self, key: bytes) -> None:
        """Remove a key's record, unless the key is in use again by then.

        As with a closed key, not before the committed offsets have passed what it has handled.
        """
        self._expired[key] = None
        # None of its timers is ever looked at again.
        self._schedule(key, ())

    def put(self, key: bytes, state: S | None) -> None:
        """Set a key's uncommitted state."""
        self._give_up(key)
        if self._expired:
            # The new state may be committed before the old one's turn comes.
            self._expired.pop(key, None)
        if self._expiring:
            self._expiring.discard(key)
        self.store.put(key, state)
        self._schedule(key, self._timers(state))

    def records(
        self, last: Mapping[bytes, Work[S]], *, prefixes: Mapping[str, int]
    ) -> dict[bytes, bytes | None]:
        """Return the records that a transaction makes true; `None` for no record.

        What may be removed fills it up to its bound, and goes into the next ones beyond that.

        Args:
            last: Each key with its last work in the transaction.
            prefixes: Source topic to the offset below which all is finished after it.
        """
        records: dict[bytes, bytes | None] = {}
        for key, work in last.items():
            value = work.value
            if value is None and work.state is not None:
                watermarks = self._format.watermarks(work.state)
                if self._closed.wait(key, watermarks=watermarks, prefixes=prefixes):
                    value = self._format.dump(work.state)
            records[key] = value
        # At least one: traffic that fills each transaction must not stop removal for ever.
        room = max(1, self._settings.max_transaction_records - len(records))
        removable = list(islice(self._removable(prefixes), room))
        for key in removable:
            if key in records or self.store.is_pending(key):
                continue
            state = self.store.get(key)
            if state is None or not (key in self._expiring or self._format.closed(state)):
                continue
            if not self._awaited(key, state, prefixes=prefixes):
                self._expiring.discard(key)
                records[key] = None
        for key in list(islice(self._expired, room - len(removable))):
            del self._expired[key]
            if key in records or self.store.is_pending(key):
                # Its state may be the one whose time was over, not committed yet: looked at anew.
                self._schedule(key, self._timers(self.store.get(key)))
                continue
            state = None if key in self.unreadable else self.store.get(key)
            if state is not None and self._awaited(key, state, prefixes=prefixes):
                self._expiring.add(key)
                continue
            self._give_up(key)
            records[key] = None
        return records

    def has_removable(self, prefixes: Mapping[str, int]) -> bool:
        """Tell whether `records` has left something to remove for another transaction."""
        return bool(self._forgettable or self._expired or self._closed.has_passed(prefixes))

    def _removable(self, prefixes: Mapping[str, int]) -> Iterator[bytes]:
        """Yield and drop the closed keys that may be forgotten."""
        while self._forgettable:
            yield self._forgettable.popleft()
        yield from self._closed.passed(prefixes)

    def _awaited(self, key: bytes, state: S, *, prefixes: Mapping[str, int]) -> bool:
        """Tell whether a restart may read records again that only this state remembers."""
        watermarks = self._format.watermarks(state)
        return self._closed.wait(key, watermarks=watermarks, prefixes=prefixes)

    def commit(
        self,
        records: Mapping[bytes, bytes | None],
        *,
        last: Mapping[bytes, Work[S]],
        position: int | None = None,
        at: int | None = None,
        imprint: bytes | None = None,
    ) -> None:
        """Take note that the records were committed; see `Store.commit`."""
        if records:
            self.unsettled.difference_update(records)
            states = {key: work.state for key, work in last.items()}
            self.store.commit(records, states=states, position=position, at=at, imprint=imprint)

    def earliest_timer(self) -> int | None:
        """Return the earliest due time (ms), or `None`; may be one that was cancelled."""
        found = (self.timers.earliest(), self._late_timers.earliest())
        return min((at for at in found if at is not None), default=None)

    def fire(self, until: int, *, through: int, keys: int) -> list[tuple[bytes, TimerDue]]:
        """Return the timers due at or before `until` (ms), each only once.

        Args:
            until: How far timers are looked at.
            through: The time through which everything has been handled: some fire up to it only.
            keys: How many keys are looked at; the timers of others stay for the next call.
        """
        due = self.timers.fire(
            until,
            timers_of=lambda key: [each for each in self._timers_of(key) if not each.after_backlog],
            keys=keys,
        )
        due += self._late_timers.fire(
            min(until, through),
            timers_of=lambda key: [each for each in self._timers_of(key) if each.after_backlog],
            keys=keys - len(due),
        )
        return due

    def _schedule(self, key: bytes, timers: Sequence[TimerDue]) -> None:
        """Take note of a key's timers; called whenever its state changes."""
        late = [timer for timer in timers if timer.after_backlog]
        self.timers.update(
            key, timers if not late else [each for each in timers if each not in late]
        )
        self._late_timers.update(key, late)

    def _timers_of(self, key: bytes) -> Sequence[TimerDue]:
        if key in self.unreadable:
            return (self._removals[key],)
        return self._timers(self.store.get(key))

    def _give_up(self, key: bytes) -> None:
        """Take note that a record that cannot be read is gone, if the key had one."""
        if self.unreadable:
            self.unreadable.pop(key, None)
            self._removals.pop(key, None)

    def _timers(self, state: S | None) -> Sequence[TimerDue]:
        if state is None or self._format.closed(state):
            return ()
        return self._format.timers(state)


def _check_watermarks(
    watermarks: Mapping[str, int], *, partition: int, ends: Mapping[str, int]
) -> None:
    for topic, offset in watermarks.items():
        end = ends.get(topic)
        if end is not None and offset >= end:
            message = (
                f"the topic was recreated: {topic!r} partition {partition} ends at {end}, but "
                f"offset {offset} of it has been handled; start a new group with a new changelog, "
                f"or bring the topic back"
            )
            raise StartRefused(message)
