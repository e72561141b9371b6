"""Which closed keys may be forgotten.

The record of a closed state only says how far its key was handled. It is needed until the
committed offsets of all its topics have passed that: until then a restart may read the key's
records again.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class ClosedKeys:
    """Closed keys with a record, each waiting for one topic's prefix at a time."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[int, bytes]]] = {}

    def __len__(self) -> int:
        """Return the number of keys waiting."""
        return sum(map(len, self._waiting.values()))

    def wait(
        self, key: bytes, *, watermarks: Mapping[str, int], prefixes: Mapping[str, int]
    ) -> bool:
        """Note a closed key under a topic that still needs it; return false if none does.

        Args:
            key: The state key.
            watermarks: Source topic to the highest offset handled for the key.
            prefixes: Source topic to the offset below which all is finished. A topic that is not
                in it is not read any more and needs nothing.
        """
        for topic, offset in watermarks.items():
            prefix = prefixes.get(topic)
            if prefix is not None and offset >= prefix:
                heapq.heappush(self._waiting.setdefault(topic, []), (offset, key))
                return True
        return False

    def passed(self, prefixes: Mapping[str, int]) -> Iterator[bytes]:
        """Yield and drop the keys whose topic has passed them; other topics may still need them."""
        for topic, heap in self._waiting.items():
            prefix = prefixes.get(topic, 0)
            while heap and heap[0][0] < prefix:
                yield heapq.heappop(heap)[1]
