"""A model that takes 50 ms: turns per second of one process, and whether order is kept.

`decide` waits for many conversations at once, one turn of each at a time. The other ways of
delivery wait for one turn after the other; a handful of turns shows it.
"""

import argparse
import asyncio
from typing import Any

from benchmarks.broker import kafka
from benchmarks.report import Table, console, finish
from benchmarks.runner import BARE, DECIDE, FAUST, QUIX, Measured, measure
from turnstream.core.definitions import Catalog
from turnstream.core.ports import DecisionRequest, Proposal
from turnstream.models.catalog_rules import CatalogRules

SECONDS = 0.05
SLOTS = 1_000


class Delayed:
    """The embedded decider, as if it were far away."""

    def __init__(self, catalog: Catalog, *, seconds: float) -> None:
        self._rules = CatalogRules(catalog, "benchmark")
        self._seconds = seconds

    @property
    def name(self) -> str:
        """Name and version."""
        return f"delayed-{self._rules.name}"

    async def propose(self, request: DecisionRequest) -> Proposal:
        """Propose after a while."""
        await asyncio.sleep(self._seconds)
        return self._rules.propose(request)


def delayed(catalog: Catalog, *, seconds: float) -> Delayed:
    """Make the decider; a deployment names this function in its `deciders`."""
    return Delayed(catalog, seconds=seconds)


def run(bootstrap: str, *, count: int, rounds: int, sequential: int) -> dict[str, Any]:
    """Measure `decide` with `count` turns and the sequential ones with `sequential`."""
    found: list[Measured] = []
    stream = {"slots": SLOTS}
    for _ in range(rounds):
        one = measure(DECIDE, bootstrap, count=count, delay_seconds=SECONDS, stream=stream)
        console.print(f"  {one.peer}: {one.rate:,.0f} turns/s, {one.checked.faults or 'checked'}")
        found.append(one)
    best = [max(found, key=lambda one: one.rate)]
    best += [
        measure(peer, bootstrap, count=sequential, delay_seconds=SECONDS)
        for peer in (FAUST, QUIX, BARE)
    ]
    return {
        "delay_seconds": SECONDS,
        "slots": SLOTS,
        "peers": [one.as_json() for one in best],
        "rounds": [one.as_json() for one in found],
    }


def table(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    rows = [
        (
            one["peer"],
            f"{one['turns_per_second']:,}",
            f"{one['turns']:,} in {one['conversations']:,}",
            "; ".join(f"{kind}: {count}" for kind, count in one["faults"].items()) or "exact",
        )
        for one in found["peers"]
    ]
    return Table(
        f"With a model that takes {found['delay_seconds'] * 1000:.0f} ms",
        ("delivery", "turns/s", "turns in conversations", "order and state"),
        rows,
        note=f"decide: {found['slots']} slots; the others as they come, one turn at a time",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sequential", type=int, default=100)
    options = parser.parse_args()
    with kafka() as bootstrap:
        found = run(
            bootstrap, count=options.turns, rounds=options.rounds, sequential=options.sequential
        )
    finish("slow_model", found, table(found))


if __name__ == "__main__":
    main()
