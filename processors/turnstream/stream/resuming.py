"""Where the reading of a source partition goes on, and whether all are still the same topics.

A topic that was deleted and created again has the name of the former one, and after a while as many
records. Its offsets then look as if they had been handled: its records would be passed over without
a word. A changelog that was, has forgotten what was handled beyond the committed offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstream.stream.role import StartRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiokafka.structs import TopicPartition

    from turnstream.stream.settings import StreamSettings


def check_same(
    tp: TopicPartition,
    *,
    committed: Mapping[TopicPartition, int | None],
    handled: int | None,
    another: bool,
    settings: StreamSettings,
) -> None:
    """Check that a topic is the one that the group and its states know.

    Args:
        tp: The source partition.
        committed: What the group has committed: `None` where it is nothing. A partition of which
            nobody can tell is not there.
        handled: The highest offset that a state has handled; `None` if there is none.
        another: Whether the topic's id says that it is another one.
        settings: Of the stream.

    Raises:
        StartRefused: It is not, or nothing tells.
    """
    group = settings.group
    anew = f"start a new group with a new changelog instead of {settings.changelog!r}"
    offset = committed.get(tp)
    if another and (offset is not None or handled is not None):
        known = offset if handled is None else handled
        raise StartRefused(
            f"the topic was recreated: {tp.topic!r} has the name and not the id of the one of "
            f"which group {group!r} knows offset {known} in partition {tp.partition}; what is in "
            f"it now would pass for handled: {anew}"
        )
    if tp in committed and offset is None and handled is not None:
        raise StartRefused(
            f"the topic was recreated, or the group's offsets were deleted: group {group!r} has "
            f"committed none of {tp.topic!r} partition {tp.partition}, yet has handled its offset "
            f"{handled}. If it is the same topic, commit where to go on "
            f"(`kafka-consumer-groups --reset-offsets`): what was handled is passed over. Else "
            f"{anew}"
        )


def resume_at(tp: TopicPartition, *, committed: int | None, beginning: int, end: int) -> int:
    """Return the offset to read from.

    Args:
        tp: The source partition.
        committed: The group's offset; `None` if there is none.
        beginning: The first offset of the partition.
        end: The offset behind its last record.

    Raises:
        StartRefused: The partition ends before the committed offset.
    """
    if committed is None:
        return beginning
    if committed > end:
        message = (
            f"the topic was recreated: {tp.topic!r} partition {tp.partition} ends at {end}, but "
            f"the group has committed {committed}; start a new group, or bring the topic back"
        )
        raise StartRefused(message)
    return max(committed, beginning)


def check_changelog(
    partition: int,
    *,
    position: int | None,
    committed: Mapping[TopicPartition, int | None],
    another: bool,
    settings: StreamSettings,
) -> None:
    """Check that a changelog is the one that the group's offsets go with.

    Args:
        partition: One that is taken over.
        position: Where its changelog ends; 0 where nothing was ever written to it, though a start
            has seen to that.
        committed: What the group has committed; see `check_same`.
        another: Whether the changelog's id says that it is another one.
        settings: Of the stream.

    Raises:
        StartRefused: It is not.
    """
    known = any(at is not None for tp, at in committed.items() if tp.partition == partition)
    if another or (position == 0 and known):
        raise StartRefused(changelog_lost(settings))


def changelog_lost(settings: StreamSettings) -> str:
    """Say that a changelog is not the one of its group, and what can be done."""
    group, changelog = settings.group, settings.changelog
    return (
        f"changelog {changelog!r} was recreated or emptied: group {group!r} has committed offsets, "
        f"and what the changelog knew of them is not in it. Conversations would begin anew, and "
        f"what was handled beyond those offsets would be done twice. Stop the group, and restore "
        f"the changelog: create it again, empty, and copy the last record of each key of the "
        f"former one into it, to the same partition, but for the key that begins with byte FF. "
        f"Where nothing was ever kept, or all of it may be forgotten: let the changelog be empty, "
        f"delete the group's offsets (`kafka-consumer-groups --delete --group {group}`), and say "
        f"in start_from where to go on"
    )
