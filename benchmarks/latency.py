"""From a turn sent to its action visible (read_committed), at a steady rate, through `decide`.

One program sends and reads, so that both ends have the same clock. What it needs itself for sending
and reading is part of the figures.
"""

import argparse
import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.broker import create_topics, delete_topics, fresh_prefix, kafka
from benchmarks.load import turns as make_turns
from benchmarks.report import Table, finish
from benchmarks.runner import RunFailed, start, stop, tail
from benchmarks.work import settings
from turnstream.core.publications import ActionEvent, Outcome
from turnstream.stream.codec import Codec
from turnstream.stream.partitioner import partitioner

Place = tuple[int, int]
"""(partition, offset) of a turn: what its action names as its source."""

_WARM_UP_SECONDS = 20
"""Turns sent before those that count: a broker that has just been started answers at a third of its
speed until its code is compiled."""
_READY_SECONDS = 60


async def _measure(bootstrap: str, rate: int, seconds: float) -> dict[str, Any]:
    prefix = fresh_prefix("latency")
    run = settings(bootstrap, prefix)
    await create_topics(run)
    count, warm_up = int(rate * seconds), rate * _WARM_UP_SECONDS
    load = make_turns(count + warm_up, salt=prefix).turns
    folder = Path(tempfile.mkdtemp(prefix="turnstream-bench-"))
    argument = {"bootstrap": bootstrap, "prefix": prefix, "folder": str(folder)}
    process = start("peers.turnstream_decide", argument, log=folder / "log")
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await producer.start()
    await consumer.start()
    seen: dict[Place, float] = {}
    sent: dict[Place, float] = {}
    places = {
        TopicPartition(run.topics.name(logical), one): logical
        for logical in ("conversation.actions", "conversation.outcomes")
        for one in range(run.partitions)
    }
    consumer.assign(list(places))
    reader = asyncio.create_task(read(consumer, places, seen))
    try:
        await send(producer, run, load[:warm_up], sent, rate=rate)
        await until(lambda: len(seen) >= warm_up, process, folder / "log")
        warm = set(sent)
        await send(producer, run, load[warm_up:], sent, rate=rate)
        await until(lambda: len(seen) >= len(load), process, folder / "log")
    finally:
        reader.cancel()
        await consumer.stop()
        await producer.stop()
        stop(process)
    shutil.rmtree(folder, ignore_errors=True)
    await delete_topics(bootstrap, prefix)
    measured = sent.keys() - warm
    took = sorted((seen[place] - sent[place]) * 1000 for place in measured)
    first, last = (edge(sent[place] for place in measured) for edge in (min, max))
    return {
        "turns": len(took),
        "rate": round(len(took) / (last - first)),
        "p50_ms": quantile(took, 0.5),
        "p90_ms": quantile(took, 0.9),
        "p99_ms": quantile(took, 0.99),
        "max_ms": round(took[-1], 1),
    }


def quantile(ordered: list[float], share: float) -> float:
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 1)


async def send(
    producer: AIOKafkaProducer, run: Any, turns: Any, sent: dict[Place, float], *, rate: int
) -> None:
    """Send at a steady rate; what comes late is not made up for by its start time."""
    codec, choose = Codec(), partitioner(run.turns.partitioner)
    topic = run.topics.name("conversation.turns")
    encoded = [(turn.conversation_id.encode(), codec.encode(turn)) for turn in turns]
    under_way = []
    begun = time.perf_counter()
    for number, (key, value) in enumerate(encoded):
        wait = begun + number / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        at, partition = time.perf_counter(), choose(key, run.partitions)
        future = await producer.send(topic, value, key=key, partition=partition)
        under_way.append((at, future))
    for at, future in under_way:
        placed = await future
        sent[placed.partition, placed.offset] = at


async def read(
    consumer: AIOKafkaConsumer,
    places: dict[TopicPartition, str],
    seen: dict[Place, float],
) -> None:
    codec = Codec()
    while True:
        fetched = await consumer.getmany(timeout_ms=100)
        now = time.perf_counter()
        for place, records in fetched.items():
            for record in records:
                event = codec.decode(places[place], record.value)
                assert isinstance(event, ActionEvent | Outcome)
                seen.setdefault((event.source.partition, event.source.offset), now)


async def until(reached: Any, process: Any, log: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not reached():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RunFailed(f"decide did not answer in {_READY_SECONDS} s\n{tail(log)}")
        await asyncio.sleep(0.05)


def run(bootstrap: str, *, rates: list[int], seconds: float) -> dict[str, Any]:
    """Measure at each rate."""
    return {
        "rates": [
            {"wanted": rate, **asyncio.run(_measure(bootstrap, rate, seconds))} for rate in rates
        ]
    }


def table(found: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    rows = [
        (
            f"{one['wanted']:,} turns/s",
            f"{one['rate']:,}",
            *(f"{one[name]:.1f}" for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms")),
            f"{one['turns']:,}",
        )
        for one in found["rates"]
    ]
    return Table(
        "Turn sent to action visible, milliseconds",
        ("wanted", "sent/s", "p50", "p90", "p99", "max", "turns"),
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", type=int, nargs="+", default=[500])
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    with kafka() as bootstrap:
        found = run(bootstrap, rates=options.rates, seconds=options.seconds)
    finish("latency", found, table(found))


if __name__ == "__main__":
    main()
