"""What a run happens on: its topics, its configuration and its workers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.chaos import logs, shop
from tests.chaos.checker import check
from tests.chaos.fold import Folder
from tests.chaos.ledger import Finding, Ledger
from tests.chaos.reading import DEAD, SOURCES, TOPICS, Reading
from turnstream.config import Settings, load_settings
from turnstream.core.events import ConversationControl, ConversationTurn
from turnstream.roles import decide
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
    reading: Reading = field(init=False)
    """Reads all that the run writes."""
    _started: int = 0

    def __post_init__(self) -> None:
        """Prepare to read."""
        self.reading = Reading(
            self.settings,
            self.ledger,
            roles=lambda: {worker.role for worker in self.workers},
        )

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
                    logs.FOLDER: str(self.folder),
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
            fold=Folder(self.deployment.ruleset, logs.replies(self.folder)),
            crashes=self.crashed,
        )

    async def until_complete(self, *, seconds: float = PATIENCE) -> None:
        """Wait until everything is read, has come to its end, and its offsets are committed."""
        ledger, reading = self.ledger, self.reading

        def complete() -> bool:
            reading.still_runs()
            return reading.level and not ledger.open and not reading.behind()

        def missing() -> str:
            return (
                f"{ledger.turns} turns read, {len(ledger.open)} things open, such as "
                f"{sorted(map(str, ledger.open))[:3]}, not committed: {reading.behind()}"
            )

        await until(complete, missing, seconds=seconds)

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

    async def close(self) -> None:
        """End all processes and stop reading."""
        for worker in self.workers:
            worker.send(signal.SIGKILL)
            await worker.process.wait()
        await self.reading.stop()


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
        logical={settings.topics.name(name): name for name in (*TOPICS, *DEAD)},
        decode=deployment.codec.decode,
        changelogs={settings.changelog(role): role for role in SOURCES},
        with_calls=with_calls,
    )
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=2) as producer:
        stage = Stage(folder, settings, config, deployment, ledger, producer)
        stage.reading.start()
        try:
            yield stage
        finally:
            await stage.close()


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
