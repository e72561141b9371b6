"""One run: traffic, faults, the end, the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.chaos import shop
from tests.chaos.checker import Finding
from tests.chaos.fold import reply_of
from tests.chaos.schedule import ON_REVOKE, Fault, RoleName, Wave
from tests.chaos.stage import (
    PARTITIONS,
    SESSION_SECONDS,
    NotInTime,
    Stage,
    Traffic,
    Worker,
    staged,
    until,
)
from turnstream.demo.kafka import KafkaBroker
from turnstream.stream.role import EXIT_REFUSED

_FORGOTTEN: Final = 40
"""Conversations that are told to be forgotten in the end, about."""

_AWAY_SECONDS: Final = 4.0
"""How long a role is away: what is written meanwhile comes back topic by topic."""

_REACHED: Final = 60.0
"""Longest wait for a process to reach its failpoint; a schedule may ask for one too many."""


@dataclass
class Report:
    """What a run was and what it showed."""

    seed: int
    turns: int = 0
    actions: int = 0
    calls: int = 0
    faults: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Faults that did not come about: their place was not reached in time."""
    reordered: int = 0
    """Requests that nobody made again after their process was lost: what came back, came
    otherwise."""
    starts: int = 0
    """Processes started, the first ones included."""
    replays: int = 0
    """Proposals made for inputs that had one already: work lost with a process."""
    unknown: int = 0
    """Calls that ended with an unknown outcome."""
    aborted: int = 0
    traffic: Counter[str] = field(default_factory=Counter)
    """What customers, people and upstream did beside writing turns."""
    labels: int = 0
    proposals: int = 0
    forgotten: int = 0
    letters: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)


@dataclass
class Crew:
    """The workers that are kept running, as an orchestrator would."""

    stage: Stage
    wanted: dict[RoleName, int]
    on_disk: bool = False
    """Whether workers keep their state on disk, in the directories of those before them."""
    members: dict[RoleName, list[Worker]] = field(default_factory=dict)
    starts: int = 0
    _guard: asyncio.Task[None] | None = None
    _busy: set[int] = field(default_factory=set)
    """Workers that a fault is at work on."""

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
            for role, count in self.wanted.items():
                members = self.members.setdefault(role, [])
                members[:] = [one for one in members if not one.ended or id(one) in self._busy]
                while len(members) < count:
                    members.append(await self._start(role))
            await asyncio.sleep(0.2)

    async def _start(self, role: RoleName, failpoints: str = "") -> Worker:
        self.starts += 1
        home: int | None = None
        if self.on_disk:
            taken = {one.home for one in self.stage.workers if not one.ended}
            home = next(number for number in range(len(taken) + 1) if number not in taken)
        return await self.stage.start(role, failpoints=failpoints, home=home)

    async def replace(self, role: RoleName, failpoints: str) -> Worker:
        """Put a worker with failpoints in the place of one without; it gets its share."""
        worker = await self._start(role, failpoints)
        self._busy.add(id(worker))
        members = self.members.setdefault(role, [])
        members.append(worker)
        victim = next((one for one in members if one is not worker and not one.ended), None)
        if victim is not None and len(members) > self.wanted[role]:
            victim.send(signal.SIGKILL)
            members.remove(victim)
        return worker

    async def send_away(self, role: RoleName, seconds: float) -> None:
        """Kill all workers of a role and start none for a while."""
        count = self.wanted[role]
        self.wanted = {**self.wanted, role: 0}
        for worker in self.members.get(role, ()):
            worker.send(signal.SIGKILL)
        # Time is the fault itself.
        await asyncio.sleep(seconds)
        self.wanted = {**self.wanted, role: count}

    def leave(self, worker: Worker) -> None:
        """Let a worker be replaced when it ends."""
        self._busy.discard(id(worker))

    async def one(self, role: RoleName) -> Worker:
        """Any running worker of a role; after a fault the next one may not be there yet."""

        def running() -> list[Worker]:
            return [one for one in self.members.get(role, ()) if not one.ended]

        await until(lambda: bool(running()), f"a worker of {role}")
        return running()[0]


async def run(
    broker: KafkaBroker,
    seed: int,
    *,
    turns: int,
    folder: Path,
    waves: Sequence[Wave],
    crew: dict[RoleName, int],
    ahead: int = 400,
    on_disk: bool = False,
    recreate: bool = False,
) -> Report:
    """Carry out one run.

    Args:
        broker: the run's own broker, started.
        seed: of traffic and schedule.
        turns: to send.
        folder: for configuration and logs.
        waves: the faults, spread over the turns.
        crew: role to its number of processes.
        ahead: turns that may be waiting.
        on_disk: whether workers keep their state on disk.
        recreate: whether the turns' topic is deleted and made anew in the end.
    """
    began = time.monotonic()
    report = Report(seed)
    async with staged(broker.bootstrap, f"chaos-{seed}.", folder) as stage:
        stage.crashed = True
        stage.ledger.shadowed = "shadow" in crew
        traffic = Traffic(stage, seed, turns, max(turns // 5, 20), ahead)
        async with Crew(stage, crew, on_disk) as workers:
            sending = asyncio.create_task(traffic.run())
            try:
                for number, wave in enumerate(waves):
                    share = turns * number / (len(waves) + 1)
                    await until(
                        lambda share=share: sending.done() or traffic.sent >= share,  # type: ignore[misc]
                        lambda: f"only {traffic.sent} turns sent",
                        seconds=600,
                    )
                    report.faults += map(str, wave)
                    missed = await asyncio.gather(
                        *(_happen(fault, workers, broker, traffic) for fault in wave)
                    )
                    report.missed += [one for one in missed if one]
                await sending
                await stage.until_complete(seconds=180)
                await _forget(stage, traffic)
            except NotInTime as late:
                report.findings.append(Finding("undecided_turn", str(late)))
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, NotInTime, KafkaError):
                    await sending
        report.findings += stage.check()
        ledger = stage.ledger
        report.turns, report.actions = ledger.turns, len(ledger.actions)
        report.calls = sum(action.call is not None for _, action in ledger.actions)
        report.unknown = sum(one.outcome == "outcome_unknown" for _, one in ledger.results)
        report.letters = sum(map(len, ledger.letters.values()))
        report.labels, report.proposals = len(ledger.labels), len(ledger.proposals)
        report.aborted, report.starts = traffic.aborted, workers.starts
        report.traffic = traffic.controls + Counter(aborted=traffic.aborted, poison=traffic.poison)
        report.forgotten = len(ledger.forgotten)
        report.replays = shop.repeated(folder)
        committed = {reply_of(action) for _, action in ledger.actions}
        report.reordered = shop.unrepeated(folder, committed)
        await stage.stop_all()
        if recreate:
            report.faults.append("recreated")
            report.findings += await _recreate(stage)
    report.seconds = time.monotonic() - began
    return report


async def _forget(stage: Stage, traffic: Traffic) -> None:
    """Let conversations be forgotten when all is quiet, and some of them begin again."""
    ledger = stage.ledger
    there = [key for key, value in ledger.kept["decide"].items() if value is not None]
    keys = there[:: max(len(there) // _FORGOTTEN, 1)]
    ledger.forget(keys)
    for key in keys:
        await traffic.control(key.decode(), "forget")
    await stage.until_complete()
    await stage.until_forgotten()
    for key in keys[::2]:
        await traffic.say(key.decode(), "refund please")
    await stage.until_complete()


async def _happen(fault: Fault, crew: Crew, broker: KafkaBroker, traffic: Traffic) -> str | None:
    """Let a fault happen; name it if it could not be brought about."""
    match fault.kind:
        case "broker":
            broker.kill()
            await asyncio.to_thread(broker.start)
        case "refusal":
            return await _refuse(fault, crew.stage)
        case "disk_full":
            return await _fill_disk(fault, crew)
        case "kill":
            (await crew.one(fault.role)).send(signal.SIGKILL)
        case "term":
            worker = await crew.one(fault.role)
            worker.send(signal.SIGTERM)
            await crew.stage.exit_status(worker)
        case "join":
            worker = await crew._start(fault.role)
            await crew.stage.until_open(worker)
            worker.send(signal.SIGTERM)
            await crew.stage.exit_status(worker)
        case "crash":
            return await _crash(fault, crew)
        case "zombie":
            return await _zombie(fault, crew)
        case "write_zombie":
            return await _write_zombie(fault, crew, traffic)
        case "away":
            await crew.send_away(fault.role, _AWAY_SECONDS)
    return None


async def _crash(fault: Fault, crew: Crew) -> str | None:
    worker = await crew.replace(fault.role, f"{fault.point}=crash@{fault.hit}")
    try:
        if fault.point in ON_REVOKE:
            await crew.stage.until_open(worker)
            worker.send(signal.SIGTERM)
        await until(lambda: worker.ended, "the crash", seconds=_REACHED)
    except NotInTime:
        return str(fault)
    finally:
        crew.leave(worker)
    return None if worker.process.returncode == -signal.SIGKILL else str(fault)


async def _zombie(fault: Fault, crew: Crew) -> str | None:
    """Suspend a worker until others have its partitions, then let it go on."""
    worker = await crew.replace(fault.role, f"{fault.point}=stop@{fault.hit}")
    try:
        await until(lambda: worker.ended or worker.suspended, "the stop", seconds=_REACHED)
        # The fault is time itself: longer than the session, so that the group gives it up.
        await asyncio.sleep(SESSION_SECONDS + 2)
        worker.send(signal.SIGCONT)
        with contextlib.suppress(NotInTime):
            await until(lambda: worker.ended, "its end", seconds=5)
    except NotInTime:
        return str(fault)
    finally:
        crew.leave(worker)
    return None


async def _write_zombie(fault: Fault, crew: Crew, traffic: Traffic) -> str | None:
    """Suspend an executor in the middle of a write call, until another one has reported it."""
    folder = crew.stage.folder
    deadline = time.monotonic() + _REACHED
    worker: Worker | None = None
    number = 0
    while worker is None and time.monotonic() < deadline:
        number += 1
        await traffic.say(f"z-{traffic.seed}-{number}", f"refund {shop.SLOW_ORDER}{number}")
        begun = len(shop.effects(folder))
        with contextlib.suppress(NotInTime):
            await until(lambda begun=begun: len(shop.effects(folder)) > begun, "", seconds=0.5)  # type: ignore[misc]
        at_work = {effect.pid for effect in shop.effects(folder)[begun:] if effect.slow_write}
        members = crew.members.get(fault.role, ())
        worker = next((one for one in members if one.process.pid in at_work), None)
    if worker is None or worker.ended:
        return str(fault)
    worker.send(signal.SIGSTOP)
    # Another one is started for it, as an orchestrator would that hears nothing of it.
    crew.members[fault.role].remove(worker)
    await asyncio.sleep(SESSION_SECONDS + 2)
    worker.send(signal.SIGCONT)
    return None


async def _fill_disk(fault: Fault, crew: Crew) -> str | None:
    """Let no file of a worker grow any more: what a full disk is to it."""
    worker = await crew.one(fault.role)
    if worker.home is None:
        return str(fault)
    resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (1, 1))
    try:
        await until(lambda: worker.ended, "its end", seconds=_REACHED)
    except NotInTime:
        worker.send(signal.SIGKILL)
        return str(fault)
    return None


async def _refuse(fault: Fault, stage: Stage) -> str | None:
    """Let the broker refuse what decide publishes, for a while."""
    topic = stage.topic("conversation.actions")
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.bootstrap)
    await admin.start()
    try:
        await _limited(admin, topic, 200)
        before = len([one for one in stage.workers if one.ended])
        try:
            await until(
                lambda: len([one for one in stage.workers if one.ended]) > before,
                "a worker that gives up",
                seconds=20,
            )
        except NotInTime:
            return str(fault)
        finally:
            await _limited(admin, topic, 1_048_576)
    finally:
        await admin.close()
    return None


async def _recreate(stage: Stage) -> list[Finding]:
    """Delete the topic of turns and make it anew: nobody may go on as if it were the same."""
    topic = stage.topic("conversation.turns")
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([topic])
        deadline = time.monotonic() + _REACHED
        while time.monotonic() < deadline:
            made = await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
            if not any(error[1] for error in made.topic_errors):
                break
            await asyncio.sleep(0.2)
    finally:
        await admin.close()
    worker = await stage.start("decide")
    status = await stage.exit_status(worker)
    return [] if status == EXIT_REFUSED else [Finding("built_on_sand", f"exit status {status}")]


async def _limited(admin: AIOKafkaAdminClient, topic: str, limit: int) -> None:
    config = {"max.message.bytes": str(limit)}
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, config)])
