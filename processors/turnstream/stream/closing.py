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
    """Closed keys with a record, each waiting for one topic's prefix at a time.

    A key that closes again and again while a prefix stands still is one entry of that topic.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[tuple[int, bytes]]] = {}
        self._offsets: dict[str, dict[bytes, int]] = {}
        """Topic to the offset that each key in its heap waits for; the heap may have an older one.
        """

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
                offsets = self._offsets.setdefault(topic, {})
                if key not in offsets:
                    heapq.heappush(self._waiting.setdefault(topic, []), (offset, key))
                offsets[key] = offset
                return True
        return False

    def passed(self, prefixes: Mapping[str, int]) -> Iterator[bytes]:
        """Yield and drop the keys whose topic has passed them; other topics may still need them."""
        for topic, heap in self._waiting.items():
            prefix = prefixes.get(topic, 0)
            offsets = self._offsets[topic]
            while heap and heap[0][0] < prefix:
                _, key = heap[0]
                if offsets[key] >= prefix:
                    heapq.heapreplace(heap, (offsets[key], key))
                    continue
                heapq.heappop(heap)
                del offsets[key]
                yield key

    def has_passed(self, prefixes: Mapping[str, int]) -> bool:
        """Tell whether `passed` would have something to look at."""
        return any(
            heap and heap[0][0] < prefixes.get(topic, 0) for topic, heap in self._waiting.items()
        )
