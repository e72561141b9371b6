"""What happens to a run, and when: a function of its seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from turnstream.stream.failpoints import Point

Kind = Literal[
    "crash",
    "kill",
    "term",
    "join",
    "zombie",
    "write_zombie",
    "away",
    "broker",
    "refusal",
    "disk_full",
]
RoleName = Literal["decide", "execute", "answer", "classify", "shadow"]

ON_REVOKE: Final[frozenset[Point]] = frozenset(
    {"after_intake_closed", "after_handlers", "after_last_commit", "after_lanes_closed"}
)
"""Points that are reached only when partitions are given up."""

ONLY_EXECUTE: Final[frozenset[Point]] = frozenset(
    {"before_started", "after_started", "during_call", "after_call"}
)

ON_ASSIGNMENT: Final[frozenset[Point]] = frozenset(
    {
        "before_fence",
        "after_fence",
        "during_restore",
        "after_restore",
        "after_committed",
        "after_seek",
        "after_intake_open",
    }
)
"""Points that are reached a few times, when partitions are taken over."""


_FOLLOWERS: Final[tuple[RoleName, ...]] = ("classify", "shadow", "answer")
"""Roles that read what was decided: one of them at a time fails as the others do."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: Kind
    role: RoleName = "decide"
    point: Point | None = None
    """Where the process is killed or suspended."""
    hit: int = 1

    def __str__(self) -> str:
        """Name it in the table."""
        if self.kind in ("broker", "refusal"):
            return self.kind
        return f"{self.kind} {self.role}" + ("" if self.point is None else f" {self.point}")


Wave = Sequence[Fault]
"""Faults that happen at the same time, each to another role."""


def schedule(seed: int, *, waves: int, on_disk: bool = False) -> list[Wave]:
    """Give the faults of a run.

    Every failpoint has its crash within a few seeds, each seed its broker crash and its zombies.
    The first wave are groups that crash before their first commit.
    """
    chance = random.Random(seed)
    points: list[Point] = list(get_args(Point))
    of_decide = [point for point in points if point not in ONLY_EXECUTE]
    found: list[Wave] = [
        (
            Fault("crash", "decide", "before_commit"),
            Fault("crash", "execute", "before_commit"),
            Fault("crash", _FOLLOWERS[seed % 3], "before_commit"),
        )
    ]
    middle: list[Wave] = [(Fault("broker"),)]
    middle.append(
        (
            Fault("zombie", "decide", ("before_begin", "after_send")[seed % 2], 20),
            Fault("write_zombie", "execute")
            if seed % 2
            else Fault("zombie", "execute", "after_started", 5),
            Fault(
                "zombie", _FOLLOWERS[(seed + 1) % 3], ("after_send", "before_begin")[seed % 2], 5
            ),
        )
    )
    if waves > _SHORT:
        middle.append((Fault("refusal"),))
        if on_disk:
            middle.append((Fault("disk_full", _FOLLOWERS[seed // 2 % 3]),))
        middle.append((Fault("term", "decide"), Fault("term", "execute"), Fault("term", "shadow")))
        middle.append((Fault("join", "decide"), Fault("kill", "answer"), Fault("kill", "execute")))
        middle.append((Fault("away", "decide"), Fault("kill", "classify"), Fault("kill", "shadow")))
    count = max(waves - len(middle), 0)
    for number in range(seed * count, (seed + 1) * count):
        # Seeds go on where the one before them ended, the two roles at different places.
        decide = of_decide[(number + len(of_decide) // 2) % len(of_decide)]
        execute = points[number % len(points)]
        middle.append(
            (
                Fault("crash", "decide", decide, _hit(decide, chance, upto=40)),
                Fault("crash", "execute", execute, _hit(execute, chance, upto=9)),
                Fault("crash", _FOLLOWERS[number % 3], decide, _hit(decide, chance, upto=9)),
            )
        )
    chance.shuffle(middle)
    return found + middle


def _hit(point: Point, chance: random.Random, *, upto: int) -> int:
    """Choose the time that a point is reached; some are reached a few times only."""
    return 1 if point in ON_REVOKE | ON_ASSIGNMENT else chance.randint(1, upto)


WAVES: Final = 13
"""Waves of a run at length; twenty of them crash at every failpoint."""

_SHORT: Final = 3
"""Waves of a run that has no time for faults of every kind."""


PLACES: Final[Sequence[tuple[str, str, Sequence[str]]]] = (
    ("kill -9 at a failpoint", "schedule: crash; by seed, all within 20", ("crash ",)),
    ("kill -9 anywhere", "schedule: kill", ("kill ",)),
    ("SIGTERM, leave", "schedule: term, and the end of a join", ("term ", "join ")),
    ("join", "schedule: join, and the replacement after each crash", ("join ", "crash ")),
    ("broker killed, restarted with data", "schedule: broker, in every run", ("broker",)),
    ("zombie of decide", "schedule: zombie decide, in every run", ("zombie decide",)),
    ("zombie of execute before a call", "schedule: zombie, even seeds", ("zombie execute",)),
    ("zombie of execute in a write", "schedule: write_zombie, odd seeds", ("write_zombie",)),
    (
        "zombie of answer, classify, shadow",
        "schedule: zombie, one of them per run",
        ("zombie answer", "zombie classify", "zombie shadow"),
    ),
    (
        "group crashed before its first commit",
        "schedule: the first wave",
        ("crash decide before_commit", "crash execute before_commit"),
    ),
    ("several topics return in another order", "schedule: away", ("away ",)),
    ("producer refusal", "schedule: refusal", ("refusal",)),
    ("disk-full store", "schedule: disk_full, even seeds (on disk)", ("disk_full ",)),
    ("topic deleted and recreated", "running: the end of every run", ("recreated",)),
    ("aborted transaction upstream", "traffic: writers of turns", ("aborted",)),
    ("poison records", "traffic: five kinds", ("poison",)),
    ("close, forget", "traffic; forget also at the end", ("close", "forget")),
    ("take over, hand back", "traffic", ("take_over", "hand_back")),
)
"""What can go wrong, where it is brought about, and how its name begins in the list of faults."""
