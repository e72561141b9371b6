"""``python -m tests.chaos``: seeded runs on a real Kafka, protections switched off, a table.

A second table lists every kind of fault, where it is brought about and how often it happened. The
verdict is the exit status: 0 if nothing was found where everything was in force, and everything was
found where something was not. Of as many seeds and turns as are the default, each scheduled fault
must have come about at least once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.chaos.checker import CHECKS, Finding
from tests.chaos.failover import Failover, failover
from tests.chaos.provoking import PROVOCATIONS, provoke
from tests.chaos.running import Report, run
from tests.chaos.schedule import PLACES, WAVES, RoleName, ends_quietly, schedule
from turnstream.demo.kafka import KafkaBroker

_SEEDS: Final = 20
_TURNS: Final = 20_000
_CREW: Final[dict[RoleName, int]] = {
    "decide": 2,
    "execute": 2,
    "answer": 1,
    "classify": 1,
    "shadow": 1,
}


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=_SEEDS, help="runs")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=_TURNS, help="turns of each run, at least")
    parser.add_argument("--waves", type=int, default=WAVES, help="moments of failure in each run")
    parser.add_argument(
        "--only", choices=("runs", "protections", "failover"), help="one part in place of all"
    )
    options = parser.parse_args()
    # Clients say much about a broker that is killed under them.
    logging.disable(logging.CRITICAL)
    console = Console()
    well = True
    with tempfile.TemporaryDirectory(prefix="turnstream-chaos-") as name:
        folder = Path(name)
        if options.only in (None, "protections"):
            well &= _protections(console, folder)
        if options.only in (None, "failover"):
            _failover(console, folder)
        if options.only in (None, "runs"):
            seeds = range(options.first_seed, options.first_seed + options.seeds)
            well &= _runs(console, folder, seeds, turns=options.turns, waves=options.waves)
    console.print("[bold green]nothing found" if well else "[bold red]FINDINGS")
    return 0 if well else 1


def _runs(console: Console, folder: Path, seeds: Sequence[int], *, turns: int, waves: int) -> bool:
    reports: list[Report] = []
    for seed in seeds:
        # A broker of its own: what one run leaves behind must not slow the next one down.
        on_disk = seed % 2 == 0
        with KafkaBroker() as broker:
            report = asyncio.run(
                run(
                    broker,
                    seed,
                    turns=turns,
                    folder=folder / f"seed-{seed}",
                    waves=schedule(seed, waves=waves, on_disk=on_disk),
                    crew=_CREW,
                    on_disk=on_disk,
                    recreated=True,
                    quiet_ends=ends_quietly(seed),
                )
            )
        reports.append(report)
        found = Counter(one.check for one in report.findings)
        console.print(
            f"seed {seed}: {report.turns} turns, {len(report.faults)} faults, "
            f"{report.seconds:.0f} s, findings: {dict(found) or 'none'}"
        )
        _explain(console, f"seed {seed}", report.findings)
    console.print(_table_of(reports), _repeats_of(reports), _faults_of(reports))
    for report in reports:
        if report.missed:
            console.print(f"seed {report.seed}, not reached in time: {', '.join(report.missed)}")
    absent = _never_happened(reports)
    whole = len(seeds) >= _SEEDS and turns >= _TURNS
    if absent:
        console.print(f"[yellow]in no run was reached:[/] {', '.join(absent)}")
        console.print(_meaning(whole=whole))
    return not any(report.findings for report in reports) and not (whole and absent)


def _meaning(*, whole: bool) -> str:
    """What it says of a run that a fault was never reached."""
    if whole:
        return "a run of this length should reach each: it counts as failed"
    return (
        f"no fault of a run this short: only {_SEEDS} seeds of {_TURNS:,} turns, or more, "
        "must reach each"
    )


def _never_happened(reports: Sequence[Report]) -> list[str]:
    """Faults that were scheduled and came about in no run."""
    scheduled = Counter(fault for one in reports for fault in one.faults)
    missed = Counter(fault for one in reports for fault in one.missed)
    return sorted(fault for fault, times in scheduled.items() if missed[fault] >= times)


def _table_of(reports: Sequence[Report]) -> Table:
    table = Table(title="Runs with everything in force")
    names = ("seed", "turns", "actions", "calls", "labels", "proposals", "forgotten", "dead")
    for name in (*names, "seconds", "findings"):
        table.add_column(name, justify="right")
    for one in reports:
        values = (one.seed, one.turns, one.actions, one.calls, one.labels, one.proposals)
        last = (one.forgotten, one.letters, round(one.seconds), len(one.findings))
        table.add_row(*map(str, (*values, *last)))
    return table


def _repeats_of(reports: Sequence[Report]) -> Table:
    """What was lost, failed or came back in each run."""
    table = Table(title="What had to be done again")
    names = ("seed", "faults", "starts", "replays", "otherwise", "retried", "asked", "unknown")
    for name in (*names, "timers", "twice"):
        table.add_column(name, justify="right")
    for one in reports:
        values = (one.seed, len(one.faults), one.starts, one.replays, one.reordered, one.retried)
        table.add_row(*map(str, (*values, one.asked, one.unknown, one.timers, one.timers_again)))
    table.caption = (
        "replays: requests to which the decider replied once more; otherwise: requests that led to "
        "nothing and were never made again in the same words, since inputs came back in another "
        "order; retried: attempts at calls that another one followed; asked: questions what became "
        "of a call; timers: due times that decide read; twice: those of them that had come before"
    )
    return table


def _faults_of(reports: Sequence[Report]) -> Table:
    """Every kind of fault, where it is brought about, and how often it has happened."""
    happened: Counter[str] = Counter()
    for one in reports:
        happened += Counter(one.faults) - Counter(one.missed) + one.traffic
    table = Table(title="Faults")
    for name in ("fault", "where", "times"):
        table.add_column(name, justify="right" if name == "times" else "left")
    for name, where, beginnings in PLACES:
        times = sum(
            count for fault, count in happened.items() if fault.startswith(tuple(beginnings))
        )
        table.add_row(name, where, str(times), style=None if times else "yellow")
    crashes = {name: count for name, count in happened.items() if name.startswith("crash ")}
    table.caption = ", ".join(f"{name} x{count}" for name, count in sorted(crashes.items()))
    return table


def _protections(console: Console, folder: Path) -> bool:
    with KafkaBroker() as broker:
        verdicts = asyncio.run(provoked(broker.bootstrap, folder, list(PROVOCATIONS)))
    table = Table(title="Protections: what the checker finds without each, and with it")
    for name in ("protection", "must find", "found without", "found with"):
        table.add_column(name)
    well = True
    for name, (without, having) in verdicts.items():
        wanted = PROVOCATIONS[name].finding
        found = Counter(one.check for one in without)
        fine = found[wanted] > 0 and not having
        well &= fine
        table.add_row(
            name,
            wanted,
            ", ".join(f"{check} x{count}" for check, count in found.items()) or "NOTHING",
            ", ".join(sorted({one.check for one in having})) or "nothing",
            style=None if fine else "bold red",
        )
    console.print(table)
    for name, (_, having) in verdicts.items():
        _explain(console, f"{name} in force", having)
    return well


async def provoked(
    bootstrap: str, folder: Path, names: Sequence[str], *, at_once: int = 2
) -> dict[str, tuple[list[Finding], list[Finding]]]:
    """Carry out provocations: name of each protection to the findings without it and with it."""
    places = asyncio.Semaphore(at_once)

    async def one(name: str, *, off: bool) -> list[Finding]:
        async with places:
            label = f"{name}-{'off' if off else 'on'}"
            return await provoke(bootstrap, name, folder / label, off=off, prefix=f"{label}.")

    tasks = [one(name, off=off) for name in names for off in (True, False)]
    found = await asyncio.gather(*tasks)
    return {name: (found[2 * at], found[2 * at + 1]) for at, name in enumerate(names)}


def _failover(console: Console, folder: Path) -> None:
    with KafkaBroker() as broker:
        measured: Failover = asyncio.run(failover(broker.bootstrap, folder / "failover"))
    console.print(
        f"kill -9 of one of two decide workers under load: its {measured.partitions} partitions "
        f"were decided again after {measured.first:.1f} to {measured.last:.1f} s, with a session "
        f"timeout of {measured.session:g} s"
    )


def _explain(console: Console, what: str, findings: Sequence[Finding]) -> None:
    for name, count in Counter(one.check for one in findings).items():
        console.print(f"[bold red]{what}: {name} x{count}[/] - broken: {CHECKS[name]}")
        for one in [each for each in findings if each.check == name][:5]:
            console.print(f"  {one.where}", markup=False)


if __name__ == "__main__":
    raise SystemExit(main())
