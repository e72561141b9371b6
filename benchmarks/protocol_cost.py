"""What the commit protocol of `decide` costs, beside the same worker without transactions.

Each cell is one worker process on topics of its own: first a backlog, then turns at a steady rate.
The worker is the decide role in every mode; only what its lanes send through differs, by code of
the benchmark (`peers/decide_producers.py`) and not by a setting of the role. The README says what
each mode no longer promises.
"""

import argparse
import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import GroupCoordinatorNotAvailableError, GroupLoadInProgressError

from benchmarks import latency
from benchmarks.broker import admin, create_topics, delete_topics, fresh_prefix, kafka, produce
from benchmarks.load import turns as make_turns
from benchmarks.meter import read
from benchmarks.peers.decide_producers import Mode
from benchmarks.report import Table, console, finish
from benchmarks.runner import RunFailed, start, stop, tail
from benchmarks.verify import check
from benchmarks.work import outputs, settings
from turnstream.config import Settings
from turnstream.core.events import ConversationTurn
from turnstream.roles.decide import SOURCES, WRITES

MODES: dict[Mode, str] = {
    "transactions": "transactions",
    "acknowledged": "acknowledged sends",
    "unacknowledged": "unacknowledged sends",
}
PARTITIONS = (8, 64)
GAPS = (1, 5, 20)
SCHEMAS = "turnstream.schemas"

_WARM_UP_SECONDS = 2
"""Of the steady rate, before what counts: the last commits of the backlog are past by then."""
_LIMIT_SECONDS = 120
_POLL_SECONDS = 0.25
_QUIET_SECONDS = 1.0


class Cell(NamedTuple):
    """One worker."""

    mode: Mode
    partitions: int
    gap_ms: int


class Size(NamedTuple):
    """What each worker gets."""

    backlog: int
    """Turns that are there before it starts."""
    rate: int
    """Turns per second, afterwards."""
    seconds: float


def cells(partitions: Sequence[int], gaps: Sequence[int], modes: Sequence[Mode]) -> list[Cell]:
    """Return the cells in their order: the modes take turns, so that each meets the same broker."""
    return [Cell(mode, count, gap) for count in partitions for gap in gaps for mode in modes]


ALL = cells(PARTITIONS, GAPS, list(MODES))
BESIDE = cells(PARTITIONS[:1], GAPS[1:2], list(MODES))
"""One worker of each mode: what a summary shows, and what a short run is about."""
WHOLE = Size(backlog=15_000, rate=200, seconds=8)
SMALL = Size(backlog=1_500, rate=200, seconds=2)


async def _measure(bootstrap: str, cell: Cell, size: Size) -> dict[str, Any]:
    prefix = fresh_prefix(f"protocol-{cell.mode}")
    stream = {"commit_gap_ms": cell.gap_ms}
    run = settings(bootstrap, prefix, partitions=cell.partitions, stream=stream)
    # The other roles' topics are hundreds of partitions more for the broker to look after.
    names = {run.topics.name(logical) for logical in (*SOURCES, *WRITES, SCHEMAS)}
    needed = {*names, run.changelog("decide")}
    await create_topics(run, stamped=list(outputs(run).values()), only=needed)
    steady = int(size.rate * (size.seconds + _WARM_UP_SECONDS))
    load = make_turns(size.backlog + steady, salt=prefix).turns
    await produce(run, load[: size.backlog])
    folder = Path(tempfile.mkdtemp(prefix="turnstream-bench-"))
    argument = {
        "bootstrap": bootstrap,
        "prefix": prefix,
        "folder": str(folder),
        "stream": stream,
        "more": {"partitions": cell.partitions},
    }
    process = start("peers.decide_producers", argument, cell.mode, log=folder / "log")
    try:
        await _until_committed(process, run, size.backlog, folder / "log")
        took = await _steadily(process, run, load[size.backlog :], size, folder / "log")
    finally:
        stop(process)
    checked = await check(run, load, changelog=run.changelog("decide"), timed=size.backlog)
    reading = read(folder / "meter")
    if reading is None:
        raise RunFailed(f"{cell}: met no record\n{tail(folder / 'log')}")
    seconds = checked.last_at - reading.began
    cpu = reading.cpu_at(checked.last_at) / size.backlog * 1e6
    shutil.rmtree(folder, ignore_errors=True)
    await delete_topics(bootstrap, prefix)
    return {
        **cell._asdict(),
        "turns_per_second": round(size.backlog / seconds),
        "cpu_us_per_turn": round(cpu, 1),
        "p50_ms": latency.quantile(took, 0.5),
        "p99_ms": latency.quantile(took, 0.99),
        "max_ms": round(took[-1], 1),
        "timed": len(took),
        "events": checked.events,
        "faults": checked.faults,
    }


async def _until_committed(
    process: subprocess.Popen[bytes], run: Settings, count: int, log: Path
) -> None:
    """Wait until the group has committed all turns: no end offset tells it, with markers or not."""
    deadline = time.monotonic() + _LIMIT_SECONDS
    turns = run.topics.name("conversation.turns")
    done = 0
    async with admin(run.kafka.bootstrap_servers) as client:
        while done < count:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RunFailed(f"{done} of {count} turns committed\n{tail(log)}")
            await asyncio.sleep(_POLL_SECONDS)
            try:
                committed = await client.list_consumer_group_offsets(run.group("decide"))
            except (GroupCoordinatorNotAvailableError, GroupLoadInProgressError):
                # A broker that has just been started makes the topic of offsets first.
                continue
            done = sum(at.offset for place, at in committed.items() if place.topic == turns)
    # Without acknowledgements the last batches may still be on their way, and the meter's last
    # samples lie after the last record.
    await asyncio.sleep(_QUIET_SECONDS)


async def _steadily(
    process: subprocess.Popen[bytes],
    run: Settings,
    turns: Sequence[ConversationTurn],
    size: Size,
    log: Path,
) -> list[float]:
    """Send turns at the rate; return how long each took until its action was visible, sorted."""
    servers = run.kafka.bootstrap_servers
    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, linger_ms=0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", enable_auto_commit=False
    )
    places = {
        TopicPartition(run.topics.name(logical), one): logical
        for logical in ("conversation.actions", "conversation.outcomes")
        for one in range(run.partitions)
    }
    seen: dict[latency.Place, float] = {}
    sent: dict[latency.Place, float] = {}
    await producer.start()
    await consumer.start()
    reader = None
    try:
        consumer.assign(list(places))
        await consumer.seek_to_end(*places)
        reader = asyncio.create_task(latency.read(consumer, places, seen))
        warm_up = size.rate * _WARM_UP_SECONDS
        await latency.send(producer, run, turns[:warm_up], sent, rate=size.rate)
        warm = set(sent)
        await latency.send(producer, run, turns[warm_up:], sent, rate=size.rate)
        await latency.until(lambda: sent.keys() <= seen.keys(), process, log)
    finally:
        if reader is not None:
            reader.cancel()
        await consumer.stop()
        await producer.stop()
    return sorted((seen[place] - sent[place]) * 1000 for place in sent.keys() - warm)


def run(bootstrap: str, *, size: Size, wanted: Sequence[Cell]) -> dict[str, Any]:
    """Measure the cells, after one that does not count: a broker just started is slow."""
    asyncio.run(_measure(bootstrap, Cell("transactions", 8, 5), size))
    found = []
    for number, cell in enumerate(wanted, 1):
        one = asyncio.run(_measure(bootstrap, cell, size))
        found.append(one)
        console.print(
            f"  {number}/{len(wanted)} {cell.partitions} partitions, gap {cell.gap_ms} ms, "
            f"{MODES[cell.mode]}: {one['turns_per_second']:,} turns/s, p50 {one['p50_ms']:.1f} ms, "
            f"p99 {one['p99_ms']:.1f} ms, {one['faults'] or 'checked'}"
        )
    return {**size._asdict(), "cells": found}


def table(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    rows = [
        (
            f"{one['partitions']}",
            f"{one['gap_ms']}",
            MODES[one["mode"]],
            f"{one['turns_per_second']:,}",
            f"{one['cpu_us_per_turn']:.0f}",
            f"{one['p50_ms']:.1f}",
            f"{one['p99_ms']:.1f}",
            "; ".join(f"{kind}: {count}" for kind, count in one["faults"].items()) or "exact",
        )
        for one in found["cells"]
    ]
    return Table(
        "Cost of the commit protocol, one decide worker",
        ("partitions", "gap ms", "mode", "turns/s", "CPU us/turn", "p50 ms", "p99 ms", "checked"),
        rows,
        note=(
            f"turns/s and CPU: a backlog of {found['backlog']:,} turns; p50, p99: turn sent to "
            f"action visible at {found['rate']:,} turns/s for {found['seconds']:g} s"
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=WHOLE.backlog, help="backlog of each cell")
    parser.add_argument("--rate", type=int, default=WHOLE.rate, help="turns/s, for the latency")
    parser.add_argument("--seconds", type=float, default=WHOLE.seconds, help="of the steady rate")
    parser.add_argument("--partitions", type=int, nargs="+", default=list(PARTITIONS))
    parser.add_argument("--gaps", type=int, nargs="+", default=list(GAPS), help="commit gaps, ms")
    parser.add_argument("--modes", nargs="+", choices=get_args(Mode), default=list(MODES))
    options = parser.parse_args()
    size = Size(options.turns, options.rate, options.seconds)
    wanted = cells(options.partitions, options.gaps, options.modes)
    with kafka() as bootstrap:
        found = run(bootstrap, size=size, wanted=wanted)
    finish("protocol_cost", found, table(found))


if __name__ == "__main__":
    main()
