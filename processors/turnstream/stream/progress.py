"""State of a role that keeps none: only how far each key has been handled.

A `Progress` is always closed, so it is written only while an older record of its partition is
unfinished. A role that finishes in order writes no changelog at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson

from turnstream.stream.handler import StateTooNew, StateUnreadable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turnstream.stream.handler import TimerDue

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a key has been handled."""

    watermarks: Mapping[str, int] = field(default_factory=dict)
    """Source topic to the highest offset handled."""
    updated_at: int = 0
    """Milliseconds since the epoch, UTC."""

    def advance(self, topic: str, offset: int, *, at: int) -> Progress:
        """Return the progress after the record at `offset` of `topic`, handled at `at` (ms)."""
        return Progress({**self.watermarks, topic: offset}, at)


class ProgressFormat:
    """`StateFormat` of `Progress`.

    A record that cannot be read is of no use either once the records before it have been handled.
    """

    def load(self, value: bytes) -> Progress:
        """Read a progress record.

        Raises:
            StateTooNew: Written by a newer version.
            StateUnreadable: Of an older version, or no such record.
        """
        try:
            raw = orjson.loads(value)
            version = raw["v"]
            if type(version) is int and version > VERSION:
                raise StateTooNew(version)
            watermarks = {str(topic): int(offset) for topic, offset in raw["w"].items()}
            progress = Progress(watermarks, int(raw["t"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"not a progress record ({type(error).__name__})"
            raise StateUnreadable(message, known=VERSION, kept_ms=0) from None
        if version != VERSION:
            message = f"no migration to version {VERSION}"
            found = version if type(version) is int else None
            raise StateUnreadable(
                message, known=VERSION, found=found, watermarks=watermarks, kept_ms=0
            )
        return progress

    def dump(self, state: Progress) -> bytes:
        """Write a progress record."""
        return orjson.dumps({"v": VERSION, "w": dict(state.watermarks), "t": state.updated_at})

    def watermark(self, state: Progress, topic: str) -> int:
        """Return the highest offset of the topic handled for this key, -1 if none."""
        return state.watermarks.get(topic, -1)

    def watermarks(self, state: Progress) -> Mapping[str, int]:
        """Return all watermarks."""
        return state.watermarks

    def closed(self, state: Progress) -> bool:
        """Tell that nothing but the watermarks matters."""
        return True

    def timers(self, state: Progress) -> Sequence[TimerDue]:
        """Return no timers."""
        return ()
