"""Turns per second and CPU per turn of `decide` beside three other ways of delivery.

The same broker, the same turns, the same functions for decoding, deciding and encoding: only the
delivery differs. Every run is read back and checked.
"""

import argparse
from typing import Any

from benchmarks.broker import kafka
from benchmarks.report import Table, console, finish
from benchmarks.runner import BARE, DECIDE, FAUST, QUIX, QUIX_ONCE, Measured, Peer, measure

PEERS = {
    "decide": (DECIDE, 1.0),
    "faust": (FAUST, 0.25),
    "quix": (QUIX, 0.5),
    "quix-once": (QUIX_ONCE, 0.5),
    "aiokafka": (BARE, 0.5),
}
"""Name to the peer and its part of the turns: slower ones get fewer of the same kind."""


def run(bootstrap: str, *, count: int, rounds: int, peers: list[str]) -> dict[str, Any]:
    """Measure every peer `rounds` times, taking turns; the best run of each counts."""
    runs: dict[str, list[Measured]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name in peers:
            peer, share = PEERS[name]
            runs[name].append(_one(peer, bootstrap, int(count * share)))
    decided: dict[str, set[Any]] = {}
    for found in runs.values():
        for one in found:
            for turn, decision in one.checked.decisions.items():
                # The salt of a run is all that its ids differ in.
                decided.setdefault("-".join(turn.rsplit("-", 3)[1:]), set()).add(decision)
    return {
        "peers": {name: [one.as_json() for one in found] for name, found in runs.items()},
        "turns_decided_differently": sum(len(one) > 1 for one in decided.values()),
    }


def _one(peer: Peer, bootstrap: str, count: int) -> Measured:
    found = measure(peer, bootstrap, count=count)
    console.print(
        f"  {peer.name}: {found.rate:,.0f} turns/s, {found.cpu_us:.0f} us/turn, "
        f"{found.checked.faults or 'checked'}"
    )
    return found


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the run with the highest rate."""
    return max(runs, key=lambda one: one["turns_per_second"])


def table(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    rows = []
    stock = best(found["peers"]["faust"]) if "faust" in found["peers"] else None
    for runs in found["peers"].values():
        one = best(runs)
        cpu = min(run["cpu_us_per_turn"] for run in runs)
        ratio = one["turns_per_second"] / stock["turns_per_second"] if stock else 0.0
        faults = {kind: count for run in runs for kind, count in run["faults"].items()}
        rows.append(
            (
                one["peer"],
                f"{one['turns_per_second']:,}",
                f"{cpu:.0f}",
                f"{ratio:.1f}x" if stock else "",
                f"{one['turns']:,} in {one['conversations']:,}",
                "; ".join(f"{kind}: {count}" for kind, count in faults.items()) or "exact",
            )
        )
    differ = found["turns_decided_differently"]
    return Table(
        "Throughput of one process, same work",
        ("delivery", "turns/s", "CPU us/turn", "to stock", "turns in conversations", "checked"),
        rows,
        note=f"turns that two ways decided differently: {differ}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS))
    options = parser.parse_args()
    with kafka() as bootstrap:
        found = run(bootstrap, count=options.turns, rounds=options.rounds, peers=options.peers)
    finish("throughput", found, table(found))


if __name__ == "__main__":
    main()
