"""From a process's start to its first decision possible: how long, and in how much memory.

The state of `decide` - conversations of 4 KiB - is in the changelog. `turnstream run decide` is
started on it and is ready when all lanes are open. Its store is in memory, or on disk: without
files, with those that a stopped process left, with those that a killed one left.
"""

import argparse
import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from aiokafka import AIOKafkaProducer

from benchmarks.broker import create_topics, delete_topics, fresh_prefix, kafka, produce
from benchmarks.load import turns
from benchmarks.profile_turn import records as received
from benchmarks.report import Table, console, finish
from benchmarks.runner import ROOT, RunFailed, stop, tail
from benchmarks.work import PARTITIONS, Work, settings
from turnstream.core.conversation import Conversation, Spoken
from turnstream.core.evolution import evolved
from turnstream.stream.partitioner import partitioner

BYTES = 4096
_PER_TRANSACTION = 500
_LIMIT_SECONDS = 180
_READY = re.compile(r"lanes open: .* (\d+) changelog records read, ([\d.]+) s")


class Start(NamedTuple):
    """One start of the role."""

    name: str
    store: str
    end: signal.Signals
    """How the process is ended once it was ready."""
    fresh: bool = False
    """Without the files of a start before."""


STARTS = (
    Start("memory", "memory", signal.SIGTERM),
    Start("disk, no files", "rocksdict", signal.SIGTERM, fresh=True),
    Start("disk, after a stop", "rocksdict", signal.SIGKILL),
    Start("disk, after kill -9", "rocksdict", signal.SIGTERM),
)


def conversations(work: Work, count: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and records of 4 KiB: decided conversations with a history that fills them."""
    sample: dict[bytes, Conversation] = {}
    for record in received(work, 500):
        sample[record.key] = work.state(work.decide(record, sample.get(record.key)))
    states = [
        # Its offsets are those of another topic, and deadlines of calls that nobody makes would
        # pass while it is measured.
        evolved(
            state,
            watermarks={},
            timers=tuple(timer for timer in state.timers if timer.kind == "conversation_close"),
        )
        for state in sample.values()
    ]
    words = [word for state in states for said in state.history for word in said.text.split()]
    dice = random.Random(4)
    for number in range(count):
        state = states[number % len(states)]
        history = state.history
        missing = BYTES - len(work.format.dump(state))
        while missing > 60:
            text = " ".join(dice.choices(words, k=40))[: missing - 50]
            history = (*history, Spoken("customer", text, state.updated_at))
            missing -= len(text.encode()) + 50
        yield f"conversation-{number}".encode(), work.format.dump(evolved(state, history=history))


async def fill(bootstrap: str, prefix: str, count: int) -> int:
    """Write the changelog as lanes do, in transactions; return its bytes."""
    run = settings(bootstrap, prefix)
    await create_topics(run)
    # A role that has never read anything has no offsets; one turn is enough.
    await produce(run, turns(1, salt=prefix).turns[:1])
    choose = partitioner(run.turns.partitioner)
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=f"{prefix}fill",
        linger_ms=5,
        max_batch_size=262_144,
    )
    topic, size = run.changelog("decide"), 0
    await producer.start()
    try:
        pending = conversations(Work(run), count)
        while chunk := list(islice(pending, _PER_TRANSACTION)):
            async with producer.transaction():
                for key, value in chunk:
                    size += len(value)
                    place = choose(key, PARTITIONS)
                    await producer.send(topic, value, key=key, partition=place)
    finally:
        await producer.stop()
    return size


def start(bootstrap: str, prefix: str, one: Start, folder: Path) -> dict[str, Any]:
    """Start the role, wait until it is ready, measure and end it."""
    data, log, config = folder / "data", folder / "log", folder / "turnstream.json"
    if one.fresh:
        shutil.rmtree(data, ignore_errors=True)
    # A static member, as in the chart: else a start after a kill waits for the session to end.
    stream = {"store": one.store, "group_instance_id": "recovery"}
    if one.store != "memory":
        stream["data_dir"] = str(data)
    given = settings(bootstrap, prefix, stream=stream)
    config.write_bytes(orjson.dumps(given.model_dump(mode="json", exclude_unset=True)))
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "turnstream.cli", "run", "decide", "--config", str(config)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "processors")},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while (ready := _READY.search(log.read_text())) is None:
            if process.poll() is not None or time.monotonic() - began > _LIMIT_SECONDS:
                raise RunFailed(f"{one.name}: not ready\n{tail(log)}")
            time.sleep(0.02)
        seconds = time.monotonic() - began
        # What a commit or a timer of the first moments needs counts as well.
        time.sleep(1)
        resident, peak = memory(process.pid)
        process.send_signal(one.end)
        process.wait(90)
    finally:
        stop(process)
    used = sum(each.stat().st_size for each in data.rglob("*") if each.is_file())
    return {
        "start": one.name,
        "seconds": round(seconds, 2),
        "state_seconds": float(ready[2]),
        "read": int(ready[1]),
        "resident_mb": round(resident),
        "peak_mb": round(peak),
        "disk_mb": round(used / 1e6) if one.store != "memory" else 0,
    }


def memory(pid: int) -> tuple[float, float]:
    """Return a process's resident memory now and at its highest, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    resident, peak = (int(fields[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
    return resident, peak


def run(bootstrap: str, *, count: int) -> dict[str, Any]:
    """Measure all starts on `count` conversations."""
    prefix = fresh_prefix("recovery")
    size = asyncio.run(fill(bootstrap, prefix, count))
    folder = Path(tempfile.mkdtemp(prefix="turnstream-bench-"))
    found = []
    try:
        for one in STARTS:
            found.append(start(bootstrap, prefix, one, folder))
            console.print(f"  {one.name}: {found[-1]['seconds']} s, {found[-1]['peak_mb']} MB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        asyncio.run(delete_topics(bootstrap, prefix))
    return {"conversations": count, "state_bytes": size, "starts": found}


def table(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    rows = [
        (
            one["start"],
            f"{one['seconds']:.1f}",
            f"{one['state_seconds']:.1f}",
            f"{one['read']:,}",
            f"{one['resident_mb']:,}",
            f"{one['peak_mb']:,}",
            f"{one['disk_mb']:,}" if one["disk_mb"] else "",
        )
        for one in found["starts"]
    ]
    count, size = found["conversations"], found["state_bytes"]
    return Table(
        f"Restart with {count:,} conversations of {size / count / 1024:.1f} KiB",
        ("store", "s", "of it state", "read", "MB", "peak MB", "disk MB"),
        rows,
        note="from the start of one process to all its lanes open, four partitions",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the conversations")
    options = parser.parse_args()
    count = options.conversations // 10 if options.quick else options.conversations
    with kafka() as bootstrap:
        found = run(bootstrap, count=count)
    finish("recovery", found, table(found))


if __name__ == "__main__":
    main()
