"""What a changelog says of itself: the version of its format, and what it is for.

That is, for how many partitions and for which topics, itself among them, by the ids that tell a
topic from another one that has its name later. One record in each partition, in the transaction in
which the group's first offsets are committed. Its key cannot be that of a state: keys are UTF-8, in
which the byte FF does not occur. It is never removed, so it survives every compaction; who finds
none has a changelog from before there was one, of format 1.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from turnstream.stream.role import StartRefused
from turnstream.stream.topic_ids import TopicIds

FORMAT: Final = 1
"""What keys and values of a changelog mean to the stream, apart from the states themselves: those
have versions of their own. A program reads this format and older ones."""

IMPRINT_KEY: Final = b"\xffturnstream.imprint"


_UNTOLD: Final = TopicIds()


def imprint_of(partitions: int, topics: TopicIds = _UNTOLD) -> bytes:
    """Return what this program writes into a changelog.

    Args:
        partitions: How many it has.
        topics: The source topics and the changelog, as far as the broker tells.
    """
    said: dict[str, Any] = {"format": FORMAT, "partitions": partitions}
    if topics.ids:
        said |= {"cluster": topics.cluster_id, "topics": dict(sorted(topics.ids.items()))}
    return orjson.dumps(said)


def recreated(value: bytes | None, topics: TopicIds) -> frozenset[str]:
    """Return the topics that are not those that a changelog was written for.

    In another cluster all have other ids, whatever they hold: there a copy of the same records is
    the topic.

    Args:
        value: What the changelog says of itself, checked; `None` or empty where it says nothing.
        topics: The source topics and the changelog, as they are.
    """
    known = _known(value)
    if known.cluster_id != topics.cluster_id:
        return frozenset()
    return frozenset(
        topic for topic, found in topics.ids.items() if known.ids.get(topic, found) != found
    )


def renewed(value: bytes, *, former: bytes | None) -> bytes:
    """Return an imprint that knows as well the topics that only the former one knows.

    A broker may not tell an id for a while: a topic without one would pass for any later.

    Args:
        value: What this program writes.
        former: What the changelog says of itself, checked; `None` or empty where it says nothing.
    """
    before = _known(former)
    if not before.ids:
        return value
    now = _known(value)
    if now.ids and now.cluster_id != before.cluster_id:
        return value
    ids = {**before.ids, **now.ids}
    return imprint_of(orjson.loads(value)["partitions"], TopicIds(before.cluster_id, ids))


def _known(value: bytes | None) -> TopicIds:
    said = orjson.loads(value) if value else {}
    topics, cluster = said.get("topics"), said.get("cluster")
    if not isinstance(topics, dict) or not isinstance(cluster, str):
        return TopicIds()
    return TopicIds(cluster, topics)


def check_imprint(
    value: bytes | None, *, changelog: str, partition: int, partitions: int | None
) -> None:
    """Check that this program may read a changelog partition and add to it.

    Args:
        value: What the partition says of itself; `None` or empty where it says nothing.
        changelog: The topic, for messages.
        partition: The partition, for messages.
        partitions: How many the topics have; `None` where nobody has counted.

    Raises:
        StartRefused: Its format is newer or cannot be made out, or it is for another number of
            partitions.
    """
    if not value:
        return
    where = f"changelog {changelog!r} partition {partition}"
    try:
        said = orjson.loads(value)
        found, count = said["format"], said.get("partitions")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StartRefused(
            f"{where} does not say its format in a way that this program (format {FORMAT}) can "
            f"read: run the version of Turnstream that wrote it, or restore the topic from a copy"
        ) from error
    if type(found) is not int or found > FORMAT:
        raise StartRefused(
            f"{where} has format {found!r}, this program knows formats up to {FORMAT}: a newer "
            f"version of Turnstream has written it. Run that version, or a newer one; nothing here "
            f"has been changed"
        )
    if partitions is not None and count != partitions:
        raise StartRefused(moved(f"{where} was written for {count!r} partitions", partitions))


def check_partition(partition: int, *, changelog: str, partitions: int | None) -> None:
    """Check that a partition was there when the process started.

    Raises:
        StartRefused: The topics have been given more partitions since.
    """
    if partitions is not None and partition >= partitions:
        before = f"changelog {changelog!r} is for {partitions} partitions"
        raise StartRefused(moved(before, f"more, such as {partition}"))


def moved(before: str, now: int | str) -> str:
    """Say that keys are in other partitions than their states, and what can be done."""
    return (
        f"{before}, the topics now have {now}: keys have moved, their states have not. Go back to "
        f"topics with the former number; or migrate the state: let the group finish what is in the "
        f"topics, stop it, set another topics.prefix and `partitions`, create those topics with "
        f"`turnstream topics apply`, and copy the last record of each key of this changelog into "
        f"the new one, to the partition of its conversation, but for the key that begins with "
        f"byte FF"
    )
