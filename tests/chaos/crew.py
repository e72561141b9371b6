"""The workers of a run, kept running as an orchestrator would, and who of them fails."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Self

from tests.chaos.schedule import RoleName
from tests.chaos.stage import Stage, Worker, until

_OPEN: Final = re.compile(r"lanes open: ([0-9, ]+)", re.ASCII)


@dataclass
class Crew:
    """The workers that are kept running."""

    stage: Stage
    full: dict[RoleName, int]
    """Role to its number of workers."""
    on_disk: bool = False
    """Whether workers keep their state on disk, in the directories of those before them."""
    held_back: Counter[RoleName] = field(default_factory=Counter)
    """Role to how often one of its workers must have failed before others are started."""
    members: dict[RoleName, list[Worker]] = field(default_factory=dict)
    starts: int = 0
    wanted: dict[RoleName, int] = field(init=False)
    """Role to the number of workers that it is to have now."""
    _guard: asyncio.Task[None] | None = None
    _busy: set[int] = field(default_factory=set)
    """Workers that a fault is at work on."""

    def __post_init__(self) -> None:
        """Want everybody who is not held back."""
        self.wanted = {
            role: 0 if self.held_back[role] else count for role, count in self.full.items()
        }

    async def __aenter__(self) -> Self:
        """Start them."""
        self._guard = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop keeping them."""
        if self._guard is not None:
            self._guard.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._guard

    async def _keep(self) -> None:
        while True:
            for role in self.full:
                members = self.members.setdefault(role, [])
                members[:] = [one for one in members if not one.ended or id(one) in self._busy]
                while len(members) < self.wanted[role]:
                    members.append(await self.start(role))
            await asyncio.sleep(0.2)

    async def start(self, role: RoleName, failpoints: str = "") -> Worker:
        """Start a worker beside those that are kept."""
        self.starts += 1
        home: int | None = None
        if self.on_disk:
            taken = {one.home for one in self.stage.workers if not one.ended}
            home = next(number for number in range(len(taken) + 1) if number not in taken)
        return await self.stage.start(role, failpoints=failpoints, home=home)

    async def first(self, role: RoleName, failpoints: str) -> Worker:
        """Start a worker with failpoints as the only one of a role that is held back."""
        worker = await self.start(role, failpoints)
        self._busy.add(id(worker))
        self.members.setdefault(role, []).append(worker)
        return worker

    async def replace(self, role: RoleName, failpoints: str) -> Worker:
        """Put a worker with failpoints in the place of one without; it gets its share."""
        worker = await self.start(role, failpoints)
        self._busy.add(id(worker))
        members = self.members.setdefault(role, [])
        members.append(worker)
        victim = next((one for one in members if one is not worker and not one.ended), None)
        if victim is not None and len(members) > self.wanted[role]:
            victim.send(signal.SIGKILL)
            members.remove(victim)
        return worker

    async def send_away(self, role: RoleName) -> None:
        """Kill all workers of a role and start none until it is called back."""
        self.wanted[role] = 0
        for worker in self.members.get(role, ()):
            worker.send(signal.SIGKILL)

    def call_back(self, role: RoleName) -> None:
        """Start the workers of a role again."""
        self.wanted[role] = self.full[role]

    def has_failed_first(self, role: RoleName) -> None:
        """Start the others of a role that was held back for this."""
        self.held_back[role] -= 1
        if not self.held_back[role]:
            self.call_back(role)

    def leave(self, worker: Worker) -> None:
        """Let a worker be replaced when it ends."""
        self._busy.discard(id(worker))

    def give_up(self, worker: Worker) -> None:
        """Start another one for a worker, as if nothing was heard of it any more."""
        self._busy.discard(id(worker))
        for members in self.members.values():
            if worker in members:
                members.remove(worker)

    async def one(self, role: RoleName) -> Worker:
        """Any running worker of a role; after a fault the next one may not be there yet."""

        def running() -> list[Worker]:
            return [one for one in self.members.get(role, ()) if not one.ended]

        await until(lambda: bool(running()), f"a worker of {role}")
        return running()[0]

    async def until_taken_over(self, worker: Worker) -> None:
        """Wait until others have opened all partitions of a worker that is suspended.

        Raises:
            NotInTime: They have not.
        """
        lost = _opened(worker.log.read_text(), last=True)
        before = {id(one): len(one.log.read_text()) for one in self.stage.workers}

        def others() -> set[int]:
            return {
                partition
                for one in self.stage.workers
                if one is not worker and one.role == worker.role
                for partition in _opened(one.log.read_text()[before.get(id(one), 0) :])
            }

        await until(lambda: lost <= others(), f"others to have the partitions of a {worker.role}")


def _opened(log: str, *, last: bool = False) -> set[int]:
    """The partitions that a log says were opened, all of them or the latest."""
    found = _OPEN.findall(log)
    return {int(each) for one in (found[-1:] if last else found) for each in one.split(",")}
