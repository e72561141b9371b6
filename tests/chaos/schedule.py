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

_POINTS: Final[tuple[Point, ...]] = get_args(Point)
"""In the order of a process's life: start, assignment, inputs, transactions, revoke, calls."""

_ASSIGNMENT, _INPUT, _REVOKE, _CALL = (
    _POINTS.index(point)
    for point in ("before_fence", "after_step", "after_intake_closed", "before_started")
)
"""Where each part of it begins."""

_FIRST_START: Final[tuple[Point, ...]] = _POINTS[:_ASSIGNMENT]
"""Points that only the first process of a group reaches."""

ON_ASSIGNMENT: Final[frozenset[Point]] = frozenset(_POINTS[_ASSIGNMENT:_INPUT])
"""Points that are reached a few times, when partitions are taken over."""

ON_REVOKE: Final[frozenset[Point]] = frozenset(_POINTS[_REVOKE:_CALL])
"""Points that are reached only when partitions are given up."""

ONLY_EXECUTE: Final[frozenset[Point]] = frozenset(_POINTS[_CALL:])

_EVERY_CALL: Final[frozenset[Point]] = frozenset(
    {"before_started", "after_started", "during_call", "after_call"}
)
"""Others of the executor are reached by calls that fail, or whose outcome nobody knows."""


_FOLLOWERS: Final[tuple[RoleName, ...]] = ("classify", "shadow", "answer")
"""Roles that read what was decided: one of them at a time fails as the others do."""


_ROLES: Final[tuple[RoleName, ...]] = get_args(RoleName)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: Kind
    role: RoleName = "decide"
    point: Point | None = None
    """Where the process is killed or suspended."""
    hit: int = 1
    first: bool = False
    """Whether nobody of the role is started before it has crashed."""
    past_deadline: bool = False
    """Whether a role is away for so long that calls are given up."""

    def __str__(self) -> str:
        """Name it in the table."""
        if self.kind in ("broker", "refusal"):
            return self.kind
        name = f"{self.kind} {self.role}" + ("" if self.point is None else f" {self.point}")
        if self.first:
            name = f"first {name}"
        return f"{name} past the deadline" if self.past_deadline else name


Wave = Sequence[Fault]
"""Faults that happen at the same time, each to another role."""


def schedule(seed: int, *, waves: int, on_disk: bool = False) -> list[Wave]:
    """Give the faults of a run.

    Every failpoint has its crash within a few seeds, each seed its broker crash and its zombies.
    The first waves are groups that crash before their first commit.
    """
    chance = random.Random(seed)
    points = _POINTS[_ASSIGNMENT:]
    of_decide = [point for point in points if point not in ONLY_EXECUTE]
    # That of a group's starting place, and that of its first input.
    found: list[Wave] = [
        tuple(
            Fault("crash", role, point, first=True)
            for role in ("decide", "execute", _FOLLOWERS[seed % 3])
        )
        for point in (_FIRST_START[seed % len(_FIRST_START)], "before_commit")
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
            middle.append((Fault("disk_full", _ROLES[seed // 2 % len(_ROLES)]),))
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
    if waves > _SHORT and seed % 4 == 1:
        # Early: it takes its time, which others use while traffic goes on.
        found.append((Fault("away", "execute", past_deadline=True),))
    return found + middle


def _hit(point: Point, chance: random.Random, *, upto: int) -> int:
    """Choose the time that a point is reached; some are reached a few times only."""
    if point in ON_REVOKE | ON_ASSIGNMENT:
        return 1
    return chance.randint(1, 2 if point in ONLY_EXECUTE - _EVERY_CALL else upto)


def ends_quietly(seed: int) -> bool:
    """Tell in which runs conversations end by themselves: of both kinds of store."""
    return seed % 5 == 1


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
        "schedule: the first waves",
        ("first crash decide before_commit", "first crash execute before_commit"),
    ),
    ("several topics return in another order", "schedule: away", ("away decide",)),
    ("calls past their deadline", "schedule: away, every fourth seed", ("away execute past",)),
    ("producer refusal", "schedule: refusal", ("refusal",)),
    (
        "disk-full store",
        "schedule: disk_full, even seeds (on disk), one role each",
        tuple(f"disk_full {role}" for role in _ROLES),
    ),
    ("topic deleted and recreated", "running: the end of every run", ("recreated",)),
    ("aborted transaction upstream", "traffic: writers of turns", ("aborted",)),
    ("poison records", "traffic: five kinds", ("poison",)),
    ("close, forget", "traffic; forget also at the end", ("close", "forget")),
    ("take over, hand back", "traffic", ("take_over", "hand_back")),
    ("attempt that fails, and is repeated", "shop: book, a quarter of the orders", ("retried",)),
    ("outcome asked for", "shop: transfer, lost replies and crashes", ("reconciled",)),
    ("call past its deadline, as a timer", "catalog; after away execute", ("timer call_deadline",)),
    ("question that expires", "catalog: 8 s", ("timer question_expiry",)),
    (
        "conversation that ends by itself",
        "configuration, every fifth seed",
        ("timer conversation_close",),
    ),
)
"""What can go wrong, where it is brought about, and how its name begins in the list of faults."""
