"""What a changelog says of itself: the version of its format, and how many partitions it is for.

One record in each partition, before the first state that a lane writes there. Its key cannot be
that of a state: keys are UTF-8, in which the byte FF does not occur. It is never removed, so it
survives every compaction; who finds none has a changelog from before there was one, of format 1.
"""

from __future__ import annotations

from typing import Final

import orjson

from turnstream.stream.role import StartRefused

FORMAT: Final = 1
"""What keys and values of a changelog mean to the stream, apart from the states themselves: those
have versions of their own. A program reads this format and older ones."""

IMPRINT_KEY: Final = b"\xffturnstream.imprint"


def imprint_of(partitions: int) -> bytes:
    """Return what this program writes into a changelog with that many partitions."""
    return orjson.dumps({"format": FORMAT, "partitions": partitions})


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
