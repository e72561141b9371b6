"""What a run happens on: topics, workers, the turns that are sent, and who reads it all."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from tests.chaos import shop
from tests.chaos.checker import check
from tests.chaos.fold import Folder
from tests.chaos.ledger import Finding, Ledger
from turnstream.config import Settings, load_settings
from turnstream.core.events import ControlKind, ConversationControl, ConversationTurn
from turnstream.roles import answer, classify, decide, execute, shadow
from turnstream.roles.deployment import Deployment
from turnstream.stream.failpoints import VARIABLE
from turnstream.stream.partitioner import partitioner
from turnstream.stream.topics import apply

ROOT: Final = Path(__file__).parents[2]
PARTITIONS: Final = 4
SESSION_SECONDS: Final = 6.0
"""The shortest session that a deployment may have."""

PATIENCE: Final = 120.0
"""Longest wait for anything, on a busy machine."""

_SOURCES: Final[Mapping[str, Sequence[str]]] = {
    "decide": decide.SOURCES,
    "execute": execute.SOURCES,
    "answer": answer.SOURCES,
    "classify": classify.SOURCES,
    "shadow": shadow.SOURCES,
}
"""Role to the topics that it reads."""

_TOPICS: Final = (
    *decide.SOURCES,
    "conversation.actions",
    "conversation.outcomes",
    "conversation.outbound",
    "shadow.proposals",
    "shadow.comparisons",
)
"""All that roles read and write, but for what people do."""

DEAD: Final = tuple(f"{source}.dlq" for source in (*shadow.SOURCES, *shadow.WRITES[:1]))
"""The dead letters of every source, and the shadow's own; of one partition each."""


class NotInTime(AssertionError):
    """Something that a run waited for did not happen."""


async def until(
    condition: Callable[[], bool], what: Callable[[], str] | str, *, seconds: float = PATIENCE
) -> None:
    """Wait for a condition.

    Raises:
        NotInTime: It did not come true.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotInTime(
                f"not within {seconds:g} s: {what if isinstance(what, str) else what()}"
            )
        await asyncio.sleep(0.05)


@dataclass
class Worker:
    """A role's process."""

    role: str
    process: asyncio.subprocess.Process
    log: Path
    home: int | None = None
    """Number of the host directory that it keeps its state in; None keeps it in memory."""

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self.process.returncode is not None

    @property
    def suspended(self) -> bool:
        """Whether the process is stopped by a signal."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "T"

    def said(self, text: str) -> bool:
        """Whether its log holds a text."""
        return text in self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


@dataclass
class Stage:
    """Topics, configuration and processes of one run."""

    folder: Path
    settings: Settings
    config: Path
    deployment: Deployment
    ledger: Ledger
    producer: AIOKafkaProducer
    workers: list[Worker] = field(default_factory=list)
    crashed: bool = False
    """Whether anything but joins and orderly stops has happened."""
    level: bool = False
    """Whether all that is committed has been read, at the last look."""
    committed: dict[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    """Role to the offsets that its group had committed at the last look."""
    _started: int = 0
    _tail: asyncio.Task[None] | None = None

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return self.settings.kafka.bootstrap_servers

    def topic(self, logical: str) -> str:
        """The physical name of a topic."""
        return self.settings.topics.name(logical)

    def partition(self, key: str) -> int:
        """The partition of a conversation."""
        return partitioner("murmur2")(key.encode(), PARTITIONS)

    async def start(
        self,
        role: str,
        *,
        failpoints: str = "",
        without: str | None = None,
        home: int | None = None,
    ) -> Worker:
        """Start a role.

        Args:
            role: its name.
            failpoints: the failpoints of this process.
            without: the protection that is switched off in this process.
            home: number of the directory for its state; in memory when not given.
        """
        config = self.config if home is None else self._config_of(home)
        # Others may be started before this one is there.
        self._started += 1
        log = self.folder / f"{role}-{self._started}.log"
        module = ("turnstream.cli", "run") if without is None else ("tests.chaos.unprotected",)
        arguments = [*module, *(() if without is None else (without,)), role, "-c", config]
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *map(str, arguments),
                stdout=out,
                stderr=out,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join((str(ROOT / "processors"), str(ROOT))),
                    shop.FOLDER: str(self.folder),
                    VARIABLE: failpoints,
                },
            )
        worker = Worker(role, process, log, home)
        self.workers.append(worker)
        return worker

    def _config_of(self, home: int) -> Path:
        """Give a configuration with state on disk, in a directory of its own."""
        path = self.config.with_name(f"turnstream-{home}.yaml")
        if not path.exists():
            fields = yaml.safe_load(self.config.read_text())
            data = self.folder / f"home-{home}"
            data.mkdir()
            fields["stream"] |= {"store": "rocksdict", "data_dir": str(data)}
            path.write_text(yaml.safe_dump(fields, sort_keys=False))
        return path

    async def until_open(self, worker: Worker) -> None:
        """Wait until a worker has its partitions."""
        await until(lambda: worker.ended or worker.said("lanes open"), worker.log.read_text)

    async def exit_status(self, worker: Worker, *, seconds: float = PATIENCE) -> int:
        """Wait until a worker has ended."""
        try:
            async with asyncio.timeout(seconds):
                return await worker.process.wait()
        except TimeoutError:
            raise NotInTime(
                f"{worker.role} did not end: {worker.log.read_text()[-2000:]}"
            ) from None

    async def stop_all(self) -> None:
        """Ask all workers to stop; end those that do not."""
        for worker in self.workers:
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGTERM)
        for worker in self.workers:
            try:
                async with asyncio.timeout(20):
                    await worker.process.wait()
            except TimeoutError:
                worker.send(signal.SIGKILL)
                await worker.process.wait()

    def check(self) -> list[Finding]:
        """Verify everything that has been read so far."""
        return check(
            self.ledger,
            folder=self.folder,
            catalog=self.deployment.catalog,
            fold=Folder(self.deployment.ruleset, shop.replies(self.folder)),
            crashes=self.crashed,
        )

    async def until_complete(self, *, seconds: float = PATIENCE) -> None:
        """Wait until everything is read, has come to its end, and its offsets are committed."""
        ledger = self.ledger

        def complete() -> bool:
            self.still_reading()
            return self.level and not ledger.open and not self._behind()

        def missing() -> str:
            return (
                f"{ledger.turns} turns read, {len(ledger.open)} things open, such as "
                f"{sorted(map(str, ledger.open))[:3]}, not committed: {self._behind()}"
            )

        await until(complete, missing, seconds=seconds)

    def _behind(self) -> list[str]:
        """Name what has been read and is not passed by the offsets of every role that runs."""
        ends = self.ledger.ends
        return [
            f"{role}: {topic}/{partition}"
            for role in {worker.role for worker in self.workers}
            for topic in map(self.topic, _SOURCES[role])
            for partition in range(PARTITIONS)
            if self.committed.get(role, {}).get((topic, partition), 0)
            < ends.get((topic, partition), 0)
        ]

    async def until_forgotten(self, *, seconds: float = PATIENCE) -> None:
        """Wait until no record is left of what was to be forgotten; else that is a finding.

        A record goes with a later transaction of its partition, so every partition gets turns.
        """
        deadline = time.monotonic() + seconds
        number = 0
        while self.ledger.still_there() and time.monotonic() < deadline:
            for partition in range(PARTITIONS):
                key = next(
                    name
                    for name in (f"n-{each}" for each in range(1_000))
                    if self.partition(name) == partition
                )
                number += 1
                turn = said(key, f"{time.time_ns()}-{number}", "when do you open?")
                await self.send("conversation.turns", turn)
            await asyncio.sleep(0.5)
            await self.until_complete()
        self.ledger.not_forgotten += self.ledger.still_there()

    # --- writing --------------------------------------------------------------------------------

    async def send(self, logical: str, event: ConversationTurn | ConversationControl) -> None:
        """Send until the broker has it: an event may come twice, it is never left out."""
        key = event.conversation_id
        value = self.deployment.codec.encode(event)
        await self.insist(logical, value, key=key.encode(), partition=self.partition(key))

    async def insist(
        self, logical: str, value: bytes | None, *, key: bytes | None, partition: int
    ) -> None:
        """Write a record, however long the broker is away."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                await self.producer.send_and_wait(
                    self.topic(logical), value, key=key, partition=partition
                )
            except (KafkaError, OSError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)
            else:
                return

    # --- reading --------------------------------------------------------------------------------

    def read(self) -> None:
        """Begin to read every topic, and the committed offsets beside it."""
        self._tail = asyncio.create_task(self._read())

    def still_reading(self) -> None:
        """Raise what has ended the reading, if anything has."""
        if self._tail is not None and self._tail.done():
            self._tail.result()

    async def close(self) -> None:
        """End all processes and stop reading."""
        for worker in self.workers:
            worker.send(signal.SIGKILL)
            await worker.process.wait()
        if self._tail is not None:
            self._tail.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tail

    async def _read(self) -> None:
        names = [self.topic(logical) for logical in _TOPICS]
        tps = [
            TopicPartition(name, partition)
            for name in (*names, *self.ledger.changelogs)
            for partition in range(PARTITIONS)
        ]
        tps += [TopicPartition(self.topic(name), 0) for name in DEAD]
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=4 * 1024 * 1024,
        )
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=5_000)
        await consumer.start()
        await admin.start()
        looked = 0.0
        # Of a transaction that ends just now, offsets may be there before its records: when all has
        # been read, the last look but one is certain.
        looks = (0, 0)
        self.ledger.whole_until = 0
        try:
            consumer.assign(tps)
            await consumer.seek_to_beginning(*tps)
            while True:
                fetched = await consumer.getmany(timeout_ms=200)
                for records in fetched.values():
                    for record in records:
                        self.ledger.add(record)
                    await asyncio.sleep(0)
                with contextlib.suppress(KafkaError, OSError, TimeoutError):
                    if time.monotonic() - looked > 0.5:
                        looked = time.monotonic()
                        await self._look(admin)
                        looks = (looks[1], time.time_ns() // 1_000_000)
                    self.level = not fetched and await _is_level(consumer, tps)
                    if self.level:
                        self.ledger.whole_until = looks[0]
        finally:
            await consumer.stop()
            await admin.close()

    async def _look(self, admin: AIOKafkaAdminClient) -> None:
        """Note which offsets are committed now."""
        for role in sorted({worker.role for worker in self.workers} | {"decide"}):
            async with asyncio.timeout(5):
                found = await admin.list_consumer_group_offsets(self.settings.group(role))
            at = time.time_ns() // 1_000_000
            # Where nothing was committed yet, a group has -1.
            offsets = {
                (tp.topic, tp.partition): one.offset for tp, one in found.items() if one.offset >= 0
            }
            self.committed[role] = offsets
            self.ledger.look(role, offsets, at=at)


async def _is_level(consumer: AIOKafkaConsumer, tps: Sequence[TopicPartition]) -> bool:
    async with asyncio.timeout(5):
        ends = await consumer.end_offsets(tps)
        return all([await consumer.position(tp) >= ends[tp] for tp in tps])


@asynccontextmanager
async def staged(
    bootstrap: str, prefix: str, folder: Path, *, with_calls: bool = True, **changes: Any
) -> AsyncIterator[Stage]:
    """Make a run's topics and configuration; end its processes afterwards.

    Args:
        bootstrap: the broker's address.
        prefix: of its topics and groups.
        folder: for its configuration and logs.
        with_calls: whether executor and answerer take part.
        changes: other sections of its configuration.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - nothing runs beside it yet
    (folder / "catalog.yaml").write_text(yaml.safe_dump(shop.CATALOG, sort_keys=False))
    config = folder / "turnstream.yaml"
    fields: dict[str, Any] = {
        "kafka": {"bootstrap_servers": bootstrap},
        "topics": {"prefix": prefix},
        "partitions": PARTITIONS,
        "start_from": "earliest",
        "catalog": "catalog.yaml",
        "stream": {
            "session_timeout_seconds": SESSION_SECONDS,
            "grace_seconds": 8,
            "rebalance_timeout_seconds": 20,
            "max_queued_per_conversation": 100_000,
        },
        "deciders": {
            name: {"kind": "python", "target": f"tests.chaos.shop:{name}"}
            for name in ("scripted", "other")
        },
        "classifiers": {"labeller": {"kind": "python", "target": "tests.chaos.shop:labeller"}},
        "decide": {"answer_deadline_seconds": 120},
        "classify": {"classifier": "labeller"},
        "shadow": {"decider": "other"},
    }
    config.write_text(yaml.safe_dump(fields | changes, sort_keys=False))
    settings = load_settings(config)
    await apply(settings)
    deployment = Deployment(settings, settings.catalog)
    ledger = Ledger(
        intake=deployment.intake(decide.SOURCES, role="decide"),
        logical={settings.topics.name(name): name for name in (*_TOPICS, *DEAD)},
        decode=deployment.codec.decode,
        changelogs={settings.changelog(role): role for role in _SOURCES},
        with_calls=with_calls,
    )
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=2) as producer:
        stage = Stage(folder, settings, config, deployment, ledger, producer)
        stage.read()
        try:
            yield stage
        finally:
            await stage.close()


# --- traffic --------------------------------------------------------------------------------------


@dataclass
class Traffic:
    """Customers who write, and people who take over, close, forget: a function of its seed.

    Paced by how fast turns are decided.
    """

    stage: Stage
    seed: int
    turns: int
    conversations: int
    ahead: int = 400
    """Turns that may be waiting: what is behind is seen by the faults, not by one queue."""
    sent: int = 0
    aborted: int = 0
    """Turns that a transaction of their writer took back."""
    poison: int = 0
    """Records that can never be decided."""
    controls: Counter[str] = field(default_factory=Counter)
    """Kind of control event to how many were sent."""
    _numbers: dict[str, int] = field(default_factory=dict)
    _said: list[ConversationTurn] = field(default_factory=list)
    _upstream: AIOKafkaProducer | None = None

    async def run(self) -> None:
        """Send everything."""
        chance = random.Random(self.seed)
        try:
            while self.sent < self.turns:
                await until(
                    lambda: self.sent - self._settled() < self.ahead,
                    lambda: f"{self._settled()} of {self.sent} turns decided",
                    seconds=2 * PATIENCE,
                )
                what = chance.random()
                if what < 0.01:
                    await self._transaction(chance, abort=chance.random() < 0.6)
                elif what < 0.02:
                    await self._poison(chance)
                elif what < 0.03 and self._said:
                    await self._send(chance.choice(self._said[-200:]))
                elif what < 0.08:
                    await self._control(chance)
                else:
                    burst = [self._turn(chance) for _ in range(chance.randint(1, 8))]
                    await asyncio.gather(*map(self._send, burst))
        finally:
            if self._upstream is not None:
                await self._upstream.stop()

    def _settled(self) -> int:
        self.stage.still_reading()
        ledger = self.stage.ledger
        return ledger.turns - sum(isinstance(one, tuple) and len(one) == 3 for one in ledger.open)

    def _turn(self, chance: random.Random, text: str = "") -> ConversationTurn:
        key = f"c-{self.seed}-{chance.randrange(self.conversations)}"
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        order = f"A-{chance.randrange(1, 9_000)}"
        kind = chance.random()
        if not text:
            text = (
                "when do you open?"
                if kind < 0.4
                else f"look_up {order}"
                if kind < 0.6
                else f"refund {order}"
                if kind < 0.7
                else f"transfer {order}"
                if kind < 0.75
                else f"book {order}"
                if kind < 0.85
                else "look_up please"
                if kind < 0.9
                else f"it is {order}"
                if kind < 0.97
                else "human"
                if kind < 0.995
                else shop.BUG
            )
        return said(key, number, text)

    async def _send(self, turn: ConversationTurn) -> None:
        self.sent += 1
        self._said.append(turn)
        await self.stage.send("conversation.turns", turn)

    async def _control(self, chance: random.Random) -> None:
        kinds: tuple[ControlKind, ...] = (
            *("hand_back",) * 4,
            *("cancel",),
            *("take_over",),
            *("close",) * 2,
            *("forget",) * 2,
        )
        await self.control(
            f"c-{self.seed}-{chance.randrange(self.conversations)}", chance.choice(kinds)
        )

    async def control(self, key: str, kind: ControlKind) -> None:
        """Send a command about a conversation."""
        self.controls[kind] += 1
        control = ConversationControl(
            control_id=f"{key}/{self.controls.total()}",
            conversation_id=key,
            kind=kind,
            actor="desk",
            occurred_at=time.time_ns() // 1_000_000,
        )
        await self.stage.send("conversation.control", control)

    async def say(self, key: str, text: str) -> None:
        """Send a turn of a conversation."""
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        await self._send(said(key, number, text))

    async def _poison(self, chance: random.Random) -> None:
        """Write a record that can never be decided."""
        turn = self._turn(chance)
        key = turn.conversation_id
        value: bytes | None = self.stage.deployment.codec.encode(turn)
        whose: bytes | None = key.encode()
        partition = self.stage.partition(key)
        match chance.randrange(5):
            case 0:
                whose = None
            case 1:
                value = b'{"text": "JSON, not Avro"}'
            case 2:
                partition = (partition + 1) % PARTITIONS
            case 3:
                value = None
            case _:
                value = (value or b"")[:-3]
        self.sent += 1
        self.poison += 1
        await self.stage.insist("conversation.turns", value, key=whose, partition=partition)

    async def _transaction(self, chance: random.Random, *, abort: bool) -> None:
        """Write turns in a transaction of the writer's, and perhaps take them back."""
        turns = [self._turn(chance) for _ in range(3)]
        try:
            if self._upstream is None:
                self._upstream = AIOKafkaProducer(
                    bootstrap_servers=self.stage.bootstrap,
                    transactional_id=f"{self.stage.settings.topics.prefix}upstream",
                )
                await self._upstream.start()
            await self._upstream.begin_transaction()
            for turn in turns:
                await self._upstream.send_and_wait(
                    self.stage.topic("conversation.turns"),
                    self.stage.deployment.codec.encode(turn),
                    key=turn.conversation_id.encode(),
                    partition=self.stage.partition(turn.conversation_id),
                )
            if abort:
                await self._upstream.abort_transaction()
                self.aborted += len(turns)
            else:
                await self._upstream.commit_transaction()
        except (KafkaError, OSError):
            # Whether these turns exist is for the topic to say; the next writer fences this one.
            if self._upstream is not None:
                with contextlib.suppress(Exception):
                    await self._upstream.stop()
            self._upstream = None


def said(key: str, number: object, text: str) -> ConversationTurn:
    """Make a customer's turn, marked with what it is."""
    return ConversationTurn(
        turn_id=f"{key}/{number}",
        conversation_id=key,
        channel_id="web",
        role="customer",
        text=f"[{key}/{number}] {text}",
        occurred_at=time.time_ns() // 1_000_000,
    )
