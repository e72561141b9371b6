"""Short forms of what `make chaos` does at length."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.provoking import PROVOCATIONS, provoke
from tests.chaos.running import run
from tests.chaos.schedule import ONLY_EXECUTE, PLACES, WAVES, schedule
from tests.chaos.unprotected import PROTECTIONS
from turnstream.demo.kafka import KafkaBroker
from turnstream.stream.failpoints import POINTS


@pytest.mark.kafka
@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_nothing_is_lost_and_nothing_done_twice(tmp_path: Path) -> None:
    """Crashes at failpoints, three zombies and a killed broker leave every promise kept."""
    with KafkaBroker() as broker:
        report = await run(
            broker,
            1,
            turns=600,
            folder=tmp_path,
            waves=schedule(1, waves=3),
            crew={"decide": 2, "execute": 1, "answer": 1, "classify": 1, "shadow": 1},
            # Less than the share of the first waves: they must not wait for whom they hold back.
            ahead=90,
        )

    assert [] == report.findings
    assert report.turns >= 600
    assert min(report.labels, report.proposals, report.forgotten, report.retried) > 0
    # On a busy machine the traffic may end before a process reaches its failpoint.
    assert len(report.missed) * 2 < len(report.faults)


@pytest.mark.kafka
@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["offset_prefix", "journal"])
async def test_without_a_protection_the_checker_fails_by_name(
    name: str, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """What a protection prevents is provoked, and found."""
    findings = await provoke(kafka_bootstrap, name, tmp_path, off=True, prefix=topic_prefix)

    assert PROVOCATIONS[name].finding in {one.check for one in findings}


def test_every_protection_has_its_provocation() -> None:
    """None is switched off without a run that shows it."""
    assert set(PROTECTIONS) == set(PROVOCATIONS)


def test_twenty_schedules_crash_at_every_failpoint() -> None:
    """What `make chaos` runs leaves no place out."""
    crashes = {
        (fault.role, fault.point)
        for seed in range(1, 21)
        for wave in schedule(seed, waves=WAVES, on_disk=seed % 2 == 0)
        for fault in wave
        if fault.kind == "crash"
    }

    assert {("execute", point) for point in POINTS} <= crashes
    assert {("decide", point) for point in set(POINTS) - ONLY_EXECUTE} <= crashes


def test_twenty_runs_bring_about_every_fault() -> None:
    """What the table of faults lists as scheduled is in the schedules."""
    faults = [
        str(fault)
        for seed in range(1, 21)
        for wave in schedule(seed, waves=WAVES, on_disk=seed % 2 == 0)
        for fault in wave
    ]
    scheduled = [beginnings for _, where, beginnings in PLACES if where.startswith("schedule")]

    missing = [
        one for beginnings in scheduled for one in beginnings if not _any_begins(faults, one)
    ]

    assert [] == missing


def _any_begins(faults: Sequence[str], beginning: str) -> bool:
    return any(fault.startswith(beginning) for fault in faults)


def test_a_schedule_is_a_function_of_its_seed() -> None:
    """A run that found something can be run again."""
    assert schedule(7, waves=WAVES) == schedule(7, waves=WAVES)
    assert schedule(7, waves=WAVES) != schedule(8, waves=WAVES)
