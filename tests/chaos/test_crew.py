"""Faults are what they are called: played with processes that only pretend to be workers."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from tests.chaos import faults
from tests.chaos.crew import Crew
from tests.chaos.faults import Faults
from tests.chaos.schedule import Fault, Kind, RoleName
from tests.chaos.stage import Stage, Worker, until
from turnstream.stream.failpoints import Point

_PRETEND = r"""
import os, resource, signal, sys, time
kind, status = sys.argv[1], int(sys.argv[2])
def asked(*_):
    os.write(1, b"Signal received: 15\n")
    os._exit(status)
signal.signal(signal.SIGTERM, asked if kind != "alone" else lambda *_: os._exit(3))
print("lanes open: 0, 1; 0 keys", flush=True)
if kind.startswith("before_fence="):
    os._exit(3)
if kind.startswith("before_commit=crash"):
    os.kill(os.getpid(), signal.SIGKILL)
if kind.startswith("after_send=stop"):
    os.kill(os.getpid(), signal.SIGSTOP)
    print("goes on", flush=True)
while resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY:
    time.sleep(0.01)
if kind == "store":
    try:
        with open(sys.argv[3], "wb") as store:
            store.write(bytes(1 << 20))
    except OSError as error:
        print(error, flush=True)
os._exit(3)
"""


class Pretended:
    """A stage whose workers are scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Worker] = []
        self.failing: list[Worker] = []
        """Those with failpoints."""
        self.started = 0
        self.kind = ""
        """Of workers without failpoints."""
        self.status = 0
        """With which workers end that are asked to."""

    async def start(self, role: str, *, failpoints: str = "", home: int | None = None) -> Worker:
        """Start a script."""
        # Others may be started before this one is there.
        self.started += 1
        log = self.folder / f"{role}-{self.started}.log"
        store = str(log.with_suffix(".store"))
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *("python3", "-c", _PRETEND, failpoints or self.kind, str(self.status), store),
                stdout=out,
                stderr=out,
            )
        worker = Worker(role, process, log, home)
        self.workers.append(worker)
        if failpoints:
            self.failing.append(worker)
        return worker

    async def until_open(self, worker: Worker) -> None:
        """Wait until it says so."""
        await until(lambda: worker.ended or worker.said("lanes open"), "its lanes")

    async def exit_status(self, worker: Worker) -> int:
        """Wait for its end."""
        return await worker.process.wait()

    async def stop_all(self) -> None:
        """Ask all to end."""
        for worker in self.workers:
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGTERM)
            await worker.process.wait()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Pretended]:
    """A stage; none of its processes is left behind."""
    one = Pretended(tmp_path)
    yield one
    for worker in one.workers:
        worker.send(signal.SIGKILL)
        await worker.process.wait()


def _crew(stage: Pretended, role: RoleName, **changes: Any) -> Crew:
    return Crew(cast("Stage", stage), {role: 1}, **changes)


def _faults(crew: Crew) -> Faults:
    return Faults(crew, broker=Mock(), traffic=Mock(sent=1, turns=2))


async def test_a_zombie_goes_on_when_another_has_its_partitions(stage: Pretended) -> None:
    """Also where the role has one worker: the suspended one does not count as being there."""
    async with _crew(stage, "answer") as crew:
        assert [] == await _faults(crew).happen([Fault("zombie", "answer", "after_send")])

    (zombie,) = [one for one in stage.workers if one.said("goes on")]
    assert stage.workers[-1] is not zombie
    assert stage.workers[-1].said("lanes open")
    assert zombie not in crew.members["answer"]


@pytest.mark.parametrize("point", ["before_fence", "after_seek"])
async def test_a_worker_that_was_never_suspended_is_no_zombie(
    point: Point, stage: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ended before, and one that does not come to its place."""
    monkeypatch.setattr(faults, "_REACHED", 1.0)
    fault = Fault("zombie", "answer", point)
    async with _crew(stage, "answer") as crew:
        assert [str(fault)] == await _faults(crew).happen([fault])

    await stage.workers[-1].process.wait()
    assert not any(one.suspended for one in stage.workers)


async def test_what_is_not_reached_soon_after_the_last_turn_will_not_be(
    stage: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process waits a minute for inputs that nobody sends."""
    monkeypatch.setattr(faults, "_REACHED_IN_SILENCE", 0.2)
    fault = Fault("crash", "answer", "after_commit")
    async with _crew(stage, "answer") as crew:
        bring = Faults(crew, broker=Mock(), traffic=Mock(sent=2, turns=2))
        assert [str(fault)] == await bring.happen([fault])

    # Nor does it crash when it is asked to stop.
    (failing,) = stage.failing
    await until(lambda: failing.ended, "its end", seconds=10)


async def test_nobody_else_is_there_before_the_first_commit(stage: Pretended) -> None:
    """A role that is to crash as a new group has no healthy worker until then."""
    fault = Fault("crash", "execute", "before_commit", first=True)
    async with _crew(stage, "execute", held_back=Counter({"execute": 2})) as crew:
        # Long enough to keep a crew: it looks five times a second.
        await asyncio.sleep(0.5)
        assert [] == stage.workers

        for number in (1, 2):
            assert [] == await _faults(crew).happen([fault])
            assert -signal.SIGKILL == stage.workers[number - 1].process.returncode
            assert number == len(stage.workers)
        await crew.one("execute")


@pytest.mark.parametrize(("kind", "came"), [("store", True), ("", False)])
async def test_a_full_disk_is_the_reason_of_the_end(
    kind: str, came: bool, stage: Pretended
) -> None:
    """A process that ends for another reason has not met it."""
    stage.kind = kind
    fault = Fault("disk_full", "decide")
    async with _crew(stage, "decide", on_disk=True) as crew:
        await stage.until_open(await crew.one("decide"))
        assert ([] if came else [str(fault)]) == await _faults(crew).happen([fault])


@pytest.mark.parametrize("kind", ["term", "join"])
@pytest.mark.parametrize("status", [0, 3])
async def test_who_is_asked_to_stop_must_end_well(
    status: int, kind: Kind, stage: Pretended
) -> None:
    """Any exit status but 0 is a finding, in a wave in which the broker is there."""
    stage.status = status
    async with _crew(stage, "decide") as crew:
        bring = _faults(crew)
        await bring.happen([Fault(kind, "decide")])

    assert ["stopped_badly"] * bool(status) == [one.check for one in bring.findings]


async def test_who_ends_before_it_hears_of_it_was_not_asked(stage: Pretended) -> None:
    """The fault before this one may take several processes down, one a moment later."""
    stage.kind = "alone"
    async with _crew(stage, "decide") as crew:
        bring = _faults(crew)
        missed = await bring.happen([Fault("term", "decide")])

    assert ["term decide"] == missed
    assert [] == bring.findings


async def test_a_broker_that_was_away_excuses_it(stage: Pretended) -> None:
    """Its last commit could not be made."""
    stage.status = 3
    async with _crew(stage, "decide") as crew:
        bring = _faults(crew)
        await bring.happen([Fault("broker"), Fault("term", "decide")])

    assert [] == bring.findings


async def test_the_end_of_a_run_is_looked_at_as_well(stage: Pretended) -> None:
    """Everybody is asked to stop then."""
    stage.status = 3
    async with _crew(stage, "decide") as crew:
        await stage.until_open(await crew.one("decide"))
    bring = _faults(crew)
    await bring.stop_all()

    assert ["stopped_badly"] == [one.check for one in bring.findings]
