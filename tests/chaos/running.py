"""One run: traffic, faults, the end, the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiokafka.errors import KafkaError

from tests.chaos import logs
from tests.chaos.checker import Finding, Ledger
from tests.chaos.crew import Crew
from tests.chaos.faults import Faults, recreate
from tests.chaos.fold import reply_of
from tests.chaos.schedule import RoleName, Wave
from tests.chaos.stage import NotInTime, Stage, staged, until
from tests.chaos.traffic import Traffic
from turnstream.core.events import Timer
from turnstream.demo.kafka import KafkaBroker

_FORGOTTEN: Final = 40
"""Conversations that are told to be forgotten in the end, about."""

_QUIET_SECONDS: Final = 45.0
"""Silence after which a conversation is closed, in runs where that comes about."""


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
    """Replies given to requests that had one already: work lost with a process."""
    unknown: int = 0
    """Calls that ended with an unknown outcome."""
    retried: int = 0
    """Attempts at calls that another one followed."""
    asked: int = 0
    """Times that a tool was asked what became of a call."""
    timers: int = 0
    """Due times that came back to decide as inputs."""
    timers_again: int = 0
    """Those of them that had come before."""
    aborted: int = 0
    traffic: Counter[str] = field(default_factory=Counter)
    """What customers, people, upstream, tools and the time did beside writing turns."""
    labels: int = 0
    proposals: int = 0
    forgotten: int = 0
    letters: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)


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
    recreated: bool = False,
    quiet_ends: bool = False,
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
        recreated: whether the turns' topic is deleted and made anew in the end.
        quiet_ends: whether conversations end by themselves within the run. The checker excuses
            much of a conversation that ended, so not in every run.
    """
    began = time.monotonic()
    report = Report(seed)
    decide: dict[str, float] = {"answer_deadline_seconds": 120}
    if quiet_ends:
        decide["conversation_ttl_seconds"] = _QUIET_SECONDS
    async with staged(broker.bootstrap, f"chaos-{seed}.", folder, decide=decide) as stage:
        stage.crashed = True
        stage.ledger.shadowed = "shadow" in crew
        traffic = Traffic(stage, seed, turns, max(turns // 5, 20), ahead)
        held_back = Counter(fault.role for wave in waves for fault in wave if fault.first)
        async with Crew(stage, crew, on_disk, held_back=held_back) as workers:
            faults = Faults(workers, broker, traffic)
            sending = asyncio.create_task(traffic.run())
            try:
                for number, wave in enumerate(waves):
                    # Who is held back for the first ones holds up the turns as well.
                    first = any(fault.first for fault in wave)
                    share = 0 if first else turns * number / (len(waves) + 1)
                    await until(
                        lambda share=share: sending.done() or traffic.sent >= share,  # type: ignore[misc]
                        lambda: f"only {traffic.sent} turns sent",
                        seconds=600,
                    )
                    report.faults += map(str, wave)
                    report.missed += await faults.happen(wave)
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
        _count_timers(report, ledger)
        report.turns, report.actions = ledger.turns, len(ledger.actions)
        report.calls = sum(action.call is not None for _, action in ledger.actions)
        report.unknown = sum(one.outcome == "outcome_unknown" for _, one in ledger.results)
        report.letters = sum(map(len, ledger.letters.values()))
        report.labels, report.proposals = len(ledger.labels), len(ledger.proposals)
        report.aborted, report.starts = traffic.aborted, workers.starts
        report.retried = sum(not one.final for _, one in ledger.results)
        report.asked = logs.questions(folder)
        report.traffic += traffic.controls
        report.traffic += Counter(
            aborted=traffic.aborted,
            poison=traffic.poison,
            retried=report.retried,
            reconciled=report.asked,
        )
        report.forgotten = len(ledger.forgotten)
        report.replays = logs.repeated(folder)
        committed = {reply_of(action) for _, action in ledger.actions}
        report.reordered = logs.unrepeated(folder, committed)
        await faults.stop_all()
        report.findings += faults.findings
        if recreated:
            report.faults.append("recreated")
            report.findings += await recreate(stage)
    report.seconds = time.monotonic() - began
    return report


def _count_timers(report: Report, ledger: Ledger) -> None:
    """Count the due times that were inputs of decide."""
    timers = [one for _, one in ledger.sources.values() if isinstance(one, Timer)]
    came = Counter((one.conversation_id, one.timer_id) for one in timers)
    report.timers, report.timers_again = len(timers), len(timers) - len(came)
    report.traffic += Counter(f"timer {one.kind}" for one in timers)


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
