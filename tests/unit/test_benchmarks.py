"""The last table of the benchmarks says of each wanted figure whether it was reached."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmarks' program; they are not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return import_module("benchmarks.__main__")


def found(
    *, quick: bool = False, faulty: bool = False, seconds: float = 20.0, lost_in: str = ""
) -> dict[str, Any]:
    """What the measurements return, as far as the summary reads it."""
    figures = {"turns_per_second": 900, "cpu_us_per_turn": 440.0, "p50_ms": 30.0, "p99_ms": 90.0}
    cells = [
        {
            **figures,
            "mode": mode,
            "partitions": partitions,
            "gap_ms": 5,
            "faults": {"lost": 1} if mode == lost_in else {},
        }
        for partitions in (8, 64)
        for mode in ("transactions", "acknowledged", "unacknowledged")
    ]
    decide = {"peer": "decide", "turns_per_second": 3_500, "faults": {}}
    slower = {"peer": "decide", "turns_per_second": 3_000, "faults": {"lost": 1} if faulty else {}}
    stock = {"peer": "Faust", "turns_per_second": 1_000, "faults": {}}
    start = {"seconds": seconds, "peak_mb": 400, "disk_mb": 189}
    in_memory = {"seconds": 90.0, "peak_mb": 900, "disk_mb": 0}
    return {
        "quick": quick,
        "throughput": {"peers": {"decide": [slower, decide], "faust": [stock]}},
        "a slow model": {"peers": [decide], "rounds": [decide]},
        "latency": {"rates": [{"p50_ms": 50.0, "p99_ms": 160.0}]},
        "recovery": {
            "conversations": 100_000,
            "starts": [start, {**start, "seconds": 9.0}, in_memory],
        },
        "cost of the protocol": {"cells": cells},
    }


def marks(bench: Any, of: dict[str, Any]) -> dict[str, str]:
    """Each wanted figure, and its mark."""
    return {row[2]: row[3] for row in bench.summary(of).rows if row[2]}


def test_what_was_reached_is_marked(bench: Any) -> None:
    """The figures of the disk are wanted of stores on disk alone."""
    assert {
        "at least 3x": "yes",
        "at least 3,000 turns/s": "yes",
        "under 30 s": "yes",
        "under 600 MB": "yes",
        "exact": "yes",
    } == marks(bench, found())


def test_what_was_missed_is_marked(bench: Any) -> None:
    """The longest of the starts counts."""
    assert "NO" == marks(bench, found(seconds=30.0))["under 30 s"]


@pytest.mark.parametrize("quick", [False, True])
def test_a_fault_in_any_round_is_named(bench: Any, quick: bool) -> None:
    """Not only in the best one; correctness is judged at every size."""
    of = found(faulty=True, quick=quick)

    assert ["decide"] == bench.faults(of)
    assert "NO" == marks(bench, of)["exact"]
    assert "FAULTS in decide" == bench.summary(of).rows[-1][1]
    assert [] == bench.faults(found())


def test_the_cost_of_the_protocol_is_shown_and_its_faults_count(bench: Any) -> None:
    """One row a mode; without transactions nothing is promised that could be broken."""
    shown = [row[0] for row in bench.summary(found()).rows if row[0].endswith(("ions", "sends"))]

    assert [f"with {name}" for name in bench.protocol_cost.MODES.values()] == shown
    assert ["decide at 8 partitions, gap 5 ms", "decide at 64 partitions, gap 5 ms"] == (
        bench.faults(found(lost_in="transactions"))
    )
    assert [] == bench.faults(found(lost_in="unacknowledged"))


def test_speed_is_not_judged_by_a_tenth(bench: Any) -> None:
    """Ten thousand conversations say nothing about a hundred thousand."""
    of = marks(bench, found(quick=True, seconds=1.0))

    assert {"not judged"} == {mark for wanted, mark in of.items() if wanted != "exact"}
