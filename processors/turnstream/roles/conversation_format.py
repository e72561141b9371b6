"""How conversations are stored by the role that decides."""

from collections.abc import Mapping, Sequence
from typing import cast

from turnstream.core.conversation import RECORD_VERSION, Conversation
from turnstream.core.record import RecordTooNew, RecordUnreadable, dump, load
from turnstream.stream import StateTooNew, StateUnreadable, TimerDue


class ConversationFormat:
    """How conversations are stored, for the stream."""

    def load(self, value: bytes) -> Conversation:
        """Read a record.

        Raises:
            StateTooNew: written by a newer version.
            StateUnreadable: of an older version without a migration, or no conversation.
        """
        try:
            return load(value)
        except RecordTooNew as error:
            raise StateTooNew(error.version) from error
        except RecordUnreadable as error:
            raise StateUnreadable(
                str(error),
                known=RECORD_VERSION,
                found=error.version,
                watermarks=error.watermarks,
            ) from error

    def dump(self, state: Conversation) -> bytes:
        """Write a record."""
        return dump(state)

    def watermark(self, state: Conversation, topic: str) -> int:
        """Highest offset of a topic that has been handled."""
        return state.watermarks.get(topic, -1)

    def watermarks(self, state: Conversation) -> Mapping[str, int]:
        """All of them."""
        return state.watermarks

    def closed(self, state: Conversation) -> bool:
        """Whether the conversation is over."""
        return state.phase == "closed"

    def timers(self, state: Conversation) -> Sequence[TimerDue]:
        """The due times that the conversation waits for."""
        # Entries have the form of TimerDue; copying them for every turn would only cost time.
        return cast("Sequence[TimerDue]", state.timers)
