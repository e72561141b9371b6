"""Every measurement on one broker, and one summary: `python -m benchmarks [--quick]`."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import latency, profile_turn, protocol_cost, recovery, slow_model, throughput
from benchmarks.broker import kafka
from benchmarks.report import Table, console, finish


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the turns, one round")
    options = parser.parse_args()
    quick = options.quick
    with kafka() as bootstrap:
        steps: dict[str, Callable[[], tuple[dict[str, Any], Table]]] = {
            "profile of one turn": lambda: _of(profile_turn, count=2_000 if quick else 10_000),
            "throughput": lambda: _of(
                throughput,
                bootstrap,
                count=4_000 if quick else 40_000,
                rounds=1 if quick else 3,
                peers=list(throughput.PEERS),
            ),
            "a slow model": lambda: _of(
                slow_model,
                bootstrap,
                count=4_000 if quick else 20_000,
                rounds=1 if quick else 3,
                sequential=40 if quick else 100,
            ),
            "latency": lambda: _of(latency, bootstrap, rates=[500], seconds=5 if quick else 20),
            "recovery": lambda: _of(recovery, bootstrap, count=10_000 if quick else 100_000),
            "cost of the protocol": lambda: _of(
                protocol_cost,
                bootstrap,
                size=protocol_cost.SMALL if quick else protocol_cost.WHOLE,
                wanted=protocol_cost.BESIDE if quick else protocol_cost.ALL,
            ),
        }
        found: dict[str, Any] = {"quick": quick}
        tables: list[Table] = []
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("", total=len(steps))
            for name, step in steps.items():
                progress.update(task, description=name)
                figures, shown = step()
                found[name] = figures
                tables.append(shown)
                progress.advance(task)
    finish("all", found, *tables, summary(found))
    # Of correctness alone: how fast a run was depends on the machine and on what else it does.
    sys.exit(1 if faults(found) else 0)


def _of(module: Any, *arguments: Any, **more: Any) -> tuple[dict[str, Any], Table]:
    figures = module.run(*arguments, **more)
    return figures, module.table(figures)


def summary(found: dict[str, Any]) -> Table:
    """Return the figures that the promises are about, and whether each is what is wanted.

    Speed is judged at full size only: with a tenth of the turns a start is most of what is seen.
    """
    peers = {name: throughput.best(runs) for name, runs in found["throughput"]["peers"].items()}
    ours, stock = peers["decide"], peers["faust"]
    ratio = ours["turns_per_second"] / stock["turns_per_second"]
    slow = found["a slow model"]["peers"][0]
    steady = found["latency"]["rates"][0]
    disk = [one for one in found["recovery"]["starts"] if one["disk_mb"]]
    longest, most = (max(one[what] for one in disk) for what in ("seconds", "peak_mb"))
    stored = f"{found['recovery']['conversations']:,} conversations on disk"
    workers = [one for one in found["cost of the protocol"]["cells"] if _beside(one)]
    faulty = faults(found)

    def reached(yes: bool) -> str:
        return "not judged" if found["quick"] else _mark(yes)

    rows = [
        ("throughput of decide", f"{ours['turns_per_second']:,} turns/s", "", ""),
        ("to the stock Faust agent", f"{ratio:.1f}x", "at least 3x", reached(ratio >= 3)),
        (
            "with a 50 ms model",
            f"{slow['turns_per_second']:,} turns/s",
            "at least 3,000 turns/s",
            reached(slow["turns_per_second"] >= 3_000),
        ),
        (
            "latency at 500 turns/s",
            f"p50 {steady['p50_ms']:.0f} ms, p99 {steady['p99_ms']:.0f} ms",
            "",
            "",
        ),
        *((f"with {protocol_cost.MODES[one['mode']]}", _cost(one), "", "") for one in workers),
        (f"restart with {stored}", f"{longest:.1f} s", "under 30 s", reached(longest < 30)),
        ("memory at its highest then", f"{most:,} MB", "under 600 MB", reached(most < 600)),
        (
            "order and state of every run",
            f"FAULTS in {', '.join(faulty)}" if faulty else "exact",
            "exact",
            _mark(not faulty),
        ),
    ]
    return Table("Summary", ("what", "measured", "wanted", "reached"), rows)


def faults(found: dict[str, Any]) -> list[str]:
    """Return whose runs left behind what they must not, in any round.

    Without transactions `decide` is no role of ours, and nothing is promised of what it leaves.
    """
    slow = found["a slow model"]
    runs = [one for rounds in found["throughput"]["peers"].values() for one in rounds]
    runs += [*slow["peers"], *slow["rounds"]]
    named = [one["peer"] for one in runs if one["faults"]]
    named += [
        f"decide at {one['partitions']} partitions, gap {one['gap_ms']} ms"
        for one in found["cost of the protocol"]["cells"]
        if one["mode"] == "transactions" and one["faults"]
    ]
    return list(dict.fromkeys(named))


def _cost(one: dict[str, Any]) -> str:
    return (
        f"{one['turns_per_second']:,} turns/s, {one['cpu_us_per_turn']:.0f} us of CPU a turn, "
        f"p50 {one['p50_ms']:.0f} ms, p99 {one['p99_ms']:.0f} ms"
    )


def _beside(one: dict[str, Any]) -> bool:
    """Whether a worker of `protocol_cost` is one of those that the summary shows."""
    return protocol_cost.Cell(one["mode"], one["partitions"], one["gap_ms"]) in protocol_cost.BESIDE


def _mark(reached: bool) -> str:
    return "yes" if reached else "NO"


if __name__ == "__main__":
    main()
