"""How each fault is brought about, and how it is known that it was."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.chaos import logs, shop
from tests.chaos.checker import Finding
from tests.chaos.crew import Crew
from tests.chaos.schedule import ON_REVOKE, Fault, Wave
from tests.chaos.stage import PARTITIONS, NotInTime, Stage, Worker, until
from tests.chaos.traffic import Traffic
from turnstream.core.events import Timer
from turnstream.demo.kafka import KafkaBroker
from turnstream.stream.role import EXIT_FAILED, EXIT_REFUSED

_AWAY_SECONDS: Final = 4.0
"""How long a role is away: what is written meanwhile comes back topic by topic."""

_REACHED: Final = 60.0
"""Longest wait for a process to reach its failpoint; a schedule may ask for one too many."""

_REACHED_IN_SILENCE: Final = 10.0
"""The same when all turns have been sent: a place that is not reached soon will not be."""

_LOG_ROOM: Final = 128 * 1024
"""Bytes that the log of a process may still grow by when its disk is full: it says why it ends."""

_DISK_FULL: Final = "File too large"
"""What the system says of a write beyond the limit."""

_ASKED: Final = "Signal received"
"""What a process says that is asked to stop."""

_TROUBLED: Final = frozenset({"broker", "refusal"})
"""Faults that may keep any process from committing, and so from stopping as it should."""


@dataclass
class Faults:
    """Brings faults about."""

    crew: Crew
    broker: KafkaBroker
    traffic: Traffic
    findings: list[Finding] = field(default_factory=list)

    async def happen(self, wave: Wave) -> list[str]:
        """Let the faults of a wave happen; name those that did not come about."""
        excused = any(fault.kind in _TROUBLED for fault in wave)
        came = await asyncio.gather(*(self._happens(fault, excused=excused) for fault in wave))
        return [str(fault) for fault, did in zip(wave, came, strict=True) if not did]

    async def _happens(self, fault: Fault, *, excused: bool) -> bool:
        """Let one happen; tell whether it came about."""
        crew = self.crew
        match fault.kind:
            case "broker":
                self.broker.kill()
                await asyncio.to_thread(self.broker.start)
            case "refusal":
                return await _refuse(crew.stage)
            case "disk_full":
                return await self._fill_disk(fault)
            case "kill":
                (await crew.one(fault.role)).send(signal.SIGKILL)
            case "term":
                return await self._stop(await crew.one(fault.role), excused=excused)
            case "join":
                return await self._stop(await crew.start(fault.role), excused=excused)
            case "crash":
                return await self._crash(fault, excused=excused)
            case "zombie":
                return await self._zombie(fault)
            case "write_zombie":
                return await _write_zombie(fault, crew, self.traffic)
            case "away":
                return await _away(fault, crew)
        return True

    async def _stop(self, worker: Worker, *, excused: bool) -> bool:
        """Ask a worker that has its partitions to stop: it must do so, and well."""
        await self.crew.stage.until_open(worker)
        if worker.ended:
            return False
        worker.send(signal.SIGTERM)
        status = await self.crew.stage.exit_status(worker)
        if not worker.said(_ASKED):
            # It had ended already, by the fault before this one.
            return False
        if status and not excused:
            self.findings.append(stopped_badly(worker))
        return True

    async def _crash(self, fault: Fault, *, excused: bool) -> bool:
        crew = self.crew
        failpoints = f"{fault.point}=crash@{fault.hit}"
        begin = crew.first if fault.first else crew.replace
        worker = await begin(fault.role, failpoints)
        asked = fault.point in ON_REVOKE
        try:
            if asked:
                await crew.stage.until_open(worker)
                worker.send(signal.SIGTERM)
            await self._until_reached(lambda: worker.ended, "the crash")
        except NotInTime:
            # It must not come to that place later, when it is asked to stop.
            worker.send(signal.SIGKILL)
            return False
        finally:
            crew.leave(worker)
            if fault.first:
                crew.has_failed_first(fault.role)
        if asked and not excused and worker.process.returncode not in (-signal.SIGKILL, 0):
            self.findings.append(stopped_badly(worker))
        return worker.process.returncode == -signal.SIGKILL

    async def _zombie(self, fault: Fault) -> bool:
        """Suspend a worker until others have its partitions, then let it go on."""
        worker = await self.crew.replace(fault.role, f"{fault.point}=stop@{fault.hit}")
        try:
            await self._until_reached(lambda: worker.ended or worker.suspended, "the stop")
        except NotInTime:
            # Nobody would let it go on when it comes to that place later.
            worker.send(signal.SIGKILL)
        finally:
            self.crew.leave(worker)
        return worker.suspended and await _outlived(worker, self.crew)

    async def _fill_disk(self, fault: Fault) -> bool:
        """Let no file of a worker grow beyond what its log needs: a full disk to its store."""
        worker = await self.crew.one(fault.role)
        if worker.home is None:
            return False
        limit = worker.log.stat().st_size + _LOG_ROOM
        resource.prlimit(worker.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        try:
            await self._until_reached(lambda: worker.ended, "its end")
        except NotInTime:
            worker.send(signal.SIGKILL)
            return False
        return worker.process.returncode == EXIT_FAILED and worker.said(_DISK_FULL)

    async def _until_reached(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for what happens to a process while there is something to do.

        Raises:
            NotInTime: It did not happen.
        """
        began = time.monotonic()
        over: float | None = None

        def decided() -> bool:
            nonlocal over
            if over is None and self.traffic.sent >= self.traffic.turns:
                over = time.monotonic()
            return condition() or (
                over is not None and time.monotonic() > over + _REACHED_IN_SILENCE
            )

        await until(decided, what, seconds=_REACHED)
        if not condition():
            raise NotInTime(f"not within {time.monotonic() - began:.0f} s: {what}")

    async def stop_all(self) -> None:
        """End the run: who has its partitions must stop well."""
        stage = self.crew.stage
        there = [one for one in stage.workers if not one.ended and one.said("lanes open")]
        await stage.stop_all()
        self.findings += [stopped_badly(one) for one in there if one.process.returncode]


def stopped_badly(worker: Worker) -> Finding:
    """Say how a worker has ended that was asked to stop."""
    last = worker.log.read_text().strip().rpartition("\n")[2][-300:]
    return Finding(
        "stopped_badly", f"{worker.role}: exit status {worker.process.returncode}: {last}"
    )


async def _outlived(worker: Worker, crew: Crew) -> bool:
    """Let a suspended worker be replaced, as by an orchestrator that hears nothing of it."""
    crew.give_up(worker)
    try:
        await crew.until_taken_over(worker)
    except NotInTime:
        return False
    finally:
        worker.send(signal.SIGCONT)
    with contextlib.suppress(NotInTime):
        await until(lambda: worker.ended, "its end", seconds=5)
    return True


async def _write_zombie(fault: Fault, crew: Crew, traffic: Traffic) -> bool:
    """Suspend an executor in the middle of a write call, until another one has reported it."""
    folder = crew.stage.folder
    deadline = time.monotonic() + _REACHED
    worker: Worker | None = None
    number = 0
    while worker is None and time.monotonic() < deadline:
        number += 1
        await traffic.say(f"z-{traffic.seed}-{number}", f"refund {shop.SLOW_ORDER}{number}")
        begun = len(logs.effects(folder))
        with contextlib.suppress(NotInTime):
            await until(lambda begun=begun: len(logs.effects(folder)) > begun, "", seconds=0.5)  # type: ignore[misc]
        at_work = {effect.pid for effect in logs.effects(folder)[begun:] if effect.slow_write}
        members = crew.members.get(fault.role, ())
        worker = next((one for one in members if one.process.pid in at_work), None)
    if worker is None or worker.ended:
        return False
    worker.send(signal.SIGSTOP)
    return await _outlived(worker, crew)


async def _away(fault: Fault, crew: Crew) -> bool:
    """Let a role be away for a while, or until the first call is past its deadline."""
    stage = crew.stage
    before = _missed_deadlines(stage)
    await crew.send_away(fault.role)
    try:
        if not fault.past_deadline:
            # Time is the fault itself.
            await asyncio.sleep(_AWAY_SECONDS)
            return True
        for _ in range(round(_REACHED)):
            if _missed_deadlines(stage) > before:
                return True
            await asyncio.sleep(1)
    finally:
        crew.call_back(fault.role)
    return False


def _missed_deadlines(stage: Stage) -> int:
    """How many calls were given up by decide so far."""
    return sum(
        isinstance(event, Timer) and event.kind == "call_deadline"
        for _, event in stage.ledger.sources.values()
    )


async def _refuse(stage: Stage) -> bool:
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
            return False
        finally:
            await _limited(admin, topic, 1_048_576)
    finally:
        await admin.close()
    return True


async def recreate(stage: Stage) -> Sequence[Finding]:
    """Delete the topic of turns and make it anew: nobody may go on as if it were the same.

    It is filled beyond what was handled of the former one, or its length alone would tell. Where
    all conversations have ended meanwhile nothing is known of the former topic any more, for its
    offsets have gone with it: then all that it holds is new, and has to be handled.
    """
    topic = stage.topic("conversation.turns")
    tps = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    letters = TopicPartition(f"{topic}.dlq", 0)
    async with AIOKafkaConsumer(bootstrap_servers=stage.bootstrap) as consumer:
        ends = await consumer.end_offsets([*tps, letters])
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
        anew = [tp for tp in tps for _ in range(ends[tp] + 1)]
        await asyncio.gather(
            *[stage.producer.send(topic, b"anew", partition=tp.partition) for tp in anew]
        )
        worker = await stage.start("decide")
        await stage.until_open(worker)
        if worker.said("; 0 keys,"):
            return await _taken_up(consumer, letters, ends[letters] + len(anew))
    status = await stage.exit_status(worker)
    return [] if status == EXIT_REFUSED else [Finding("built_on_sand", f"exit status {status}")]


async def _taken_up(
    consumer: AIOKafkaConsumer, letters: TopicPartition, end: int
) -> Sequence[Finding]:
    """Wait until as many records have been given up as a topic holds that was made anew."""
    deadline = time.monotonic() + 2 * _REACHED
    while time.monotonic() < deadline:
        found = (await consumer.end_offsets([letters]))[letters]
        if found >= end:
            return []
        await asyncio.sleep(0.5)
    return [Finding("built_on_sand", f"{end - found} records of a topic made anew are passed over")]


async def _limited(admin: AIOKafkaAdminClient, topic: str, limit: int) -> None:
    config = {"max.message.bytes": str(limit)}
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, config)])
