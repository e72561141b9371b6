"""A deployment of role processes on a broker, and what a test asks of it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests import small_shop
from turnstream.config import Settings, load_settings
from turnstream.core.events import ConversationTurn, Event
from turnstream.roles.publishing import TOPIC_OF
from turnstream.stream import Record
from turnstream.stream.codec import Codec
from turnstream.stream.contracts import EVENTS
from turnstream.stream.partitioner import partitioner
from turnstream.stream.topics import apply

M = TypeVar("M", bound=Event)

ROOT = Path(__file__).parents[2]
PARTITIONS = 4

_SECONDS = 45.0
"""Longest wait for anything: far above what it takes on a busy machine, below the test's limit."""


@dataclass
class RoleProcess:
    """One role, started."""

    name: str
    process: asyncio.subprocess.Process
    log: Path

    def text(self) -> str:
        """All that it has written."""
        return self.log.read_text()

    def lines(self) -> list[dict[str, Any]]:
        """Its log lines; what is no JSON is left out."""
        lines = self.text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    async def exit_status(self) -> int:
        """Wait until it ends."""
        async with asyncio.timeout(_SECONDS):
            return await self.process.wait()

    async def stopped(self) -> int:
        """Ask it to stop; its exit status."""
        self.process.terminate()
        return await self.exit_status()

    async def exposition(self) -> str:
        """Its `/metrics`."""
        return (await self._page("/metrics")).text

    async def health(self) -> dict[str, Any]:
        """Its `/healthz`."""
        body: dict[str, Any] = (await self._page("/healthz")).json()
        return body

    async def _page(self, path: str) -> httpx.Response:
        urls = [line["url"] for line in self.lines() if line.get("event") == "metrics"]
        assert urls, self.text()
        async with httpx.AsyncClient() as client:
            return await client.get(urls[-1].removesuffix("/metrics") + path)

    async def sample(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels, 0 without any."""
        total = 0.0
        for family in text_string_to_metric_families(await self.exposition()):
            for one in family.samples:
                if one.name == f"turnstream_{name}" and labels.items() <= one.labels.items():
                    total += one.value
        return total


@dataclass
class Deployed:
    """Topics, configuration and processes of one test."""

    folder: Path
    settings: Settings
    config: Path
    producer: AIOKafkaProducer
    codec: Codec = field(default_factory=Codec)
    roles: list[RoleProcess] = field(default_factory=list)

    def topic(self, logical: str) -> str:
        """The physical name of a topic."""
        return self.settings.topics.name(logical)

    async def start(
        self, name: str, *, config: Path | None = None, ready: bool = True
    ) -> RoleProcess:
        """Start a role; wait until it owns its partitions."""
        log = self.folder / f"{name}-{len(self.roles)}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "turnstream.cli", "run", name, "-c", str(config or self.config)),
                stdout=out,
                stderr=out,
                env=environment(),
            )
        role = RoleProcess(name, process, log)
        self.roles.append(role)
        if ready:
            await self.owned(role)
        return role

    async def stop_all(self) -> dict[str, int]:
        """Ask every running role to stop; exit status of each."""
        running = [role for role in self.roles if role.process.returncode is None]
        for role in running:
            role.process.terminate()
        return {role.name: await role.exit_status() for role in running}

    async def owned(self, role: RoleProcess) -> None:
        """Wait until a role owns every partition."""

        async def all_owned() -> bool:
            assert role.process.returncode is None, role.text()
            if '"event": "metrics"' not in role.text():
                return False
            return await role.sample("partitions_owned") == PARTITIONS

        await until(all_owned, role.text)

    def partition(self, key: str) -> int:
        """The partition that a conversation belongs to."""
        return partitioner("murmur2")(key.encode(), PARTITIONS)

    def key_on(self, partition: int, stem: str = "c") -> str:
        """A conversation that belongs to a partition."""
        return next(
            key for number in range(1000) if self.partition(key := f"{stem}-{number}") == partition
        )

    async def raw(
        self,
        value: bytes | None,
        *,
        key: bytes | None,
        partition: int,
        topic: str = "conversation.turns",
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> tuple[int, int]:
        """Write a record as it is; its partition and offset."""
        sent = await self.producer.send_and_wait(
            self.topic(topic),
            value,
            key=key,
            partition=partition,
            headers=list(headers),
        )
        return sent.partition, sent.offset

    async def send(self, event: Any, **changes: Any) -> tuple[int, int]:
        """Write an event where it belongs; its partition and offset."""
        key = event.conversation_id
        logical = next(topic for topic, model in EVENTS.items() if model is type(event))
        given: dict[str, Any] = {
            "key": key.encode(),
            "partition": self.partition(key),
            "topic": logical,
            **changes,
        }
        return await self.raw(self.codec.encode(event), **given)

    async def read(self, logical: str, *, partitions: int = PARTITIONS) -> list[Record]:
        """All committed records of a topic."""
        topic = self.topic(logical)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.kafka.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            count = 1 if topic.endswith(".dlq") else partitions
            tps = [TopicPartition(topic, partition) for partition in range(count)]
            consumer.assign(tps)
            ends = await consumer.end_offsets(tps)
            records: list[Record] = []
            while any([await consumer.position(tp) < ends[tp] for tp in tps]):
                for batch in (await consumer.getmany(timeout_ms=100)).values():
                    records.extend(batch)
            return records
        finally:
            await consumer.stop()

    async def events(self, model: type[M]) -> list[M]:
        """All events of a kind that roles have published, in each conversation's order."""
        records = await self.read(TOPIC_OF[model])
        return [self.codec.decode_as(model, record.value or b"") for record in records]

    async def letters(self, logical: str = "conversation.turns") -> list[Letter]:
        """The dead letters of a topic."""
        return [Letter.of(record) for record in await self.read(f"{logical}.dlq")]


@dataclass(frozen=True)
class Letter:
    """A dead letter."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    reason: str
    attempts: int
    headers: Mapping[str, bytes]

    @classmethod
    def of(cls, record: Record) -> Letter:
        """Read one."""
        headers = dict(record.headers)
        marks = {
            name.removeprefix("turnstream.error."): value.decode()
            for name, value in headers.items()
            if name.startswith("turnstream.error.")
        }
        return cls(
            record.key,
            record.value,
            int(marks["partition"]),
            int(marks["offset"]),
            marks["reason"],
            int(marks["attempts"]),
            headers,
        )


def environment() -> dict[str, str]:
    """What a process needs to import this checkout."""
    path = os.pathsep.join((str(ROOT / "processors"), str(ROOT)))
    return {**os.environ, "PYTHONPATH": path}


async def command(*arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run a command of ours to its end: exit status, standard output, standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "turnstream.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
        env=environment() | variables,
    )
    async with asyncio.timeout(_SECONDS):
        output, errors = await process.communicate()
    return process.returncode or 0, output.decode(), errors.decode()


async def until(
    condition: Callable[[], Any], explain: Callable[[], object] = str, *, seconds: float = _SECONDS
) -> None:
    """Wait for a condition, which is a coroutine function."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {explain()}"
        await asyncio.sleep(0.1)


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def turn(conversation_id: str, text: str, *, turn_id: str, **changes: Any) -> ConversationTurn:
    """A customer's turn."""
    fields: dict[str, Any] = {
        "turn_id": turn_id,
        "conversation_id": conversation_id,
        "channel_id": "web",
        "role": "customer",
        "text": text,
        "occurred_at": now_ms(),
    }
    return ConversationTurn.model_validate(fields | changes)


def written(
    folder: Path, bootstrap: str, prefix: str, *, name: str = "turnstream.yaml", **changes: Any
) -> Path:
    """Write a deployment's configuration, and its catalog beside it."""
    (folder / "catalog.yaml").write_text(yaml.safe_dump(small_shop.CATALOG, sort_keys=False))
    fields: dict[str, Any] = {
        "kafka": {"bootstrap_servers": bootstrap},
        "topics": {"prefix": prefix},
        "partitions": PARTITIONS,
        "start_from": "earliest",
        "catalog": "catalog.yaml",
        "stream": {"session_timeout_seconds": 6},
        "deciders": {
            "by_word": {"kind": "python", "target": "tests.small_shop:by_word"},
            "patient": {"kind": "python", "target": "tests.small_shop:patient"},
        },
        "shadow": {"decider": "patient"},
        "metrics": {"port": 0},
    }
    path = folder / name
    path.write_text(yaml.safe_dump(fields | changes, sort_keys=False))
    return path


@asynccontextmanager
async def deployed(
    bootstrap: str, prefix: str, folder: Path, **changes: Any
) -> AsyncIterator[Deployed]:
    """Give a test its topics, and end the processes that it started."""
    config = written(folder, bootstrap, prefix, **changes)
    settings = load_settings(config)
    await apply(settings)
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, max_request_size=2 * 1024 * 1024
    ) as producer:
        deployment = Deployed(folder, settings, config, producer)
        try:
            yield deployment
        finally:
            for role in deployment.roles:
                if role.process.returncode is None:
                    role.process.kill()
                    await role.process.wait()
