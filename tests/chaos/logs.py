"""What tools and deciders of a run write down themselves, beside all topics.

Append-only files in the folder that `CHAOS_FOLDER` names, which no failure of a process can take
back: the checker reads them.
"""

import hashlib
import os
import resource
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from turnstream.core.ports import DecisionRequest, Proposal

FOLDER: Final = "CHAOS_FOLDER"
EFFECTS: Final = "effects.log"
DECIDER: Final = "decider.log"
REPLIES: Final = "replies.log"
FAILURES: Final = "failures.log"
"""Calls that failed, and those of them whose effect there was."""
ASKED: Final = "asked.log"
"""Questions what became of a call."""
REPLY: Final = "reply"
"""Key of a reply's number in the diagnostics of a decision."""
NO_TOOL: Final = "no_such_tool"
"""What the decider proposes now and then: it must be refused, and is asked once more."""


# --- calls ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effect:
    """One call that reached a tool."""

    tool: str
    action_id: str
    at: int
    """Milliseconds since the epoch."""
    pid: int
    slow: bool
    looked: int | None = None
    """When a tool that knows its keys again began to look for this one, and then found none."""

    @property
    def slow_write(self) -> bool:
        """Whether it takes long and changes something."""
        return self.slow and self.tool != "look_up"


def effects(folder: Path) -> list[Effect]:
    """Every call that reached a tool, in order."""
    return sorted((Effect(**line) for line in _lines(folder / EFFECTS)), key=lambda one: one.at)


def failures(folder: Path) -> int:
    """How many calls have failed."""
    return len(_lines(folder / FAILURES))


def questions(folder: Path) -> int:
    """How often a tool was asked what became of a call."""
    return len(_lines(folder / ASKED))


def has_effect(action_id: str) -> bool:
    """Look into what no failure of a process can take back."""
    wanted = orjson.dumps({"action_id": action_id})[1:-1]
    folder = Path(os.environ[FOLDER])
    return any(wanted in path.read_bytes() for path in _parts(folder / EFFECTS))


# --- decisions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the decider, as it was logged before anybody had it."""

    number: str
    """Stands in the diagnostics of the decision that is made of it."""
    pid: int
    proposal: Proposal


def asked(request: DecisionRequest) -> str:
    """Name a request by all that it says: a process after a crash asks the same again."""
    text = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:24]


def replies(folder: Path) -> Mapping[str, Sequence[Reply]]:
    """Every reply that was given, by what was asked; more than one where a process was lost."""
    found: dict[str, list[Reply]] = defaultdict(list)
    for line in _lines(folder / REPLIES):
        proposal = Proposal(**line["proposal"])
        number = str(proposal.diagnostics[REPLY])
        found[line["request"]].append(Reply(number, line["pid"], proposal))
    return found


def overlaps(folder: Path) -> list[str]:
    """Conversations that one process decided twice at the same time."""
    at_work: set[tuple[int, str]] = set()
    found: list[str] = []
    for line in _lines(folder / DECIDER):
        one = (line["pid"], line["key"])
        if line["what"] == "ends":
            at_work.discard(one)
        elif one in at_work:
            found.append(line["key"])
        else:
            at_work.add(one)
    return found


def repeated(folder: Path) -> int:
    """How many replies were given to a request that had one: the first was lost with its process.

    Embedded or behind a wait, every reply is logged; a request in other words is another one.
    """
    return sum(len(given) - 1 for given in replies(folder).values())


def unrepeated(folder: Path, committed: Container[str | None]) -> int:
    """How many requests led to nothing and were never made again in the same words."""
    return sum(
        not any(one.number in committed or one.proposal.tool == NO_TOOL for one in given)
        for given in replies(folder).values()
    )


# --- files ----------------------------------------------------------------------------------------


def append(name: str, line: Mapping[str, object], *, durable: bool = False) -> None:
    """Write a line; with `durable`, to the disk."""
    path = Path(os.environ[FOLDER]) / name
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        # The disk that is full to this process is not that of its tools and its decider.
        path = path.with_name(f"{name}.{os.getpid()}")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, orjson.dumps(line) + b"\n")
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for part in _parts(path) for line in part.read_bytes().splitlines()]


def _parts(path: Path) -> list[Path]:
    """The files of a log: the common one, then those of processes with a full disk."""
    return [one for one in (path, *sorted(path.parent.glob(f"{path.name}.*"))) if one.exists()]
