"""The open questions of the conversations that this process owns."""

import threading
from collections.abc import Iterable

from turnstream.core.conversation import Conversation
from turnstream.metrics import Pending


class PendingQuestions:
    """Counts open questions per owned partition.

    Kept by conversation, so that an answer takes away just its own question; read at each scrape,
    from the scrape's thread. Partitions are added when their lane's state is restored and taken
    away when it is given up, so that a question is never counted by two processes for long.
    """

    def __init__(self, *, topic: str) -> None:
        """Count questions about conversations of the physical turns topic `topic`."""
        self._topic = topic
        self._lock = threading.Lock()
        self._asked_at: dict[int, dict[bytes, int]] = {}

    def note(self, partition: int, key: bytes, state: Conversation | None) -> None:
        """Take over whether a conversation has an open question now."""
        question = state.open_question if state is not None else None
        with self._lock:
            asked_at = self._asked_at.setdefault(partition, {})
            if question is not None:
                asked_at[key] = question.asked_at
            elif asked_at:
                asked_at.pop(key, None)

    def forget(self, partition: int) -> None:
        """Drop a partition that is not owned any more."""
        with self._lock:
            self._asked_at.pop(partition, None)

    def report(self) -> Iterable[Pending]:
        """The open questions of each owned partition."""
        with self._lock:
            return [
                Pending(
                    topic=self._topic,
                    partition=partition,
                    count=len(asked_at),
                    oldest_at=min(asked_at.values(), default=None),
                )
                for partition, asked_at in sorted(self._asked_at.items())
            ]
