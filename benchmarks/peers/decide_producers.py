"""The decide role with a choice of what its lanes send through: `... JSON MODE`.

`transactions` is the role as it is. In the other two modes a lane hands the same batches to a
producer without transactions, and its offsets go to the group as a consumer's `commit()` would send
them. They exist to be measured; the README says what each no longer promises.
"""

import asyncio
import functools
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, get_args

from aiokafka import AIOKafkaProducer, TopicPartition

from benchmarks.peers.options import read
from benchmarks.peers.turnstream_decide import watch
from turnstream.roles import run as roles
from turnstream.stream import StreamSettings
from turnstream.stream.app import StreamApp, build_app
from turnstream.stream.consumer import LaneConsumer
from turnstream.stream.ownership import Ownership
from turnstream.stream.transaction import (
    MAX_BATCH_BYTES,
    RETRY_BACKOFF_MS,
    BatchBuilder,
    TransactionalProducer,
)

Mode = Literal["transactions", "acknowledged", "unacknowledged"]

logger = logging.getLogger(__name__)


class OffsetCommits:
    """Commits the offsets of all lanes, one request at a time.

    What is handed in while a request is under way goes out together with the next one, as a single
    consumer commits all its partitions at once.
    """

    def __init__(self, commit: Callable[[Mapping[TopicPartition, int]], Awaitable[bool]]) -> None:
        self._commit = commit
        self._offsets: dict[TopicPartition, int] = {}
        self._committed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def hand_in(self, offsets: Mapping[TopicPartition, int]) -> asyncio.Future[None]:
        """Take offsets; the future ends when the group has them, or has refused them."""
        self._offsets.update(offsets)
        if self._committed is None:
            self._committed = asyncio.get_running_loop().create_future()
            self._committed.add_done_callback(_look)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return self._committed

    async def _run(self) -> None:
        while (committed := self._committed) is not None:
            offsets, self._offsets, self._committed = self._offsets, {}, None
            try:
                if not await self._commit(offsets):
                    raise RuntimeError(f"the group refused {offsets}")
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                committed.set_exception(error)
            else:
                committed.set_result(None)
        self._task = None


def _look(future: asyncio.Future[Any]) -> None:
    """Log a failure that perhaps nobody waits for."""
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.error("not taken by the broker: %r", error)


class PlainProducer:
    """What a lane uses in place of its transactional producer."""

    def __init__(
        self, producer: AIOKafkaProducer, commits: OffsetCommits, *, acknowledged: bool
    ) -> None:
        self._producer = producer
        self._commits = commits
        self._acknowledged = acknowledged
        self._offsets: Mapping[TopicPartition, int] = {}

    async def start(self) -> None:
        """Connect; nobody is fenced."""
        await self._producer.start()

    async def stop(self) -> None:
        """Send what is left and disconnect."""
        await self._producer.stop()

    async def begin_transaction(self) -> None:
        """Do nothing."""

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch."""
        batch: BatchBuilder = self._producer.create_batch()
        return batch

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[Any]:
        """Queue a batch; the future has ended already where no answer is waited for."""
        sent: asyncio.Future[Any] = await self._producer.send_batch(
            batch, topic, partition=partition
        )
        if self._acknowledged:
            return sent
        sent.add_done_callback(_look)
        unknown: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        unknown.set_result(None)
        return unknown

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int], group_id: str
    ) -> None:
        """Keep the offsets until the batches have been sent."""
        self._offsets = offsets

    async def commit_transaction(self) -> None:
        """Commit the offsets, now that the batches have been sent; wait where it acknowledges."""
        offsets, self._offsets = self._offsets, {}
        if not offsets:
            return
        committed = self._commits.hand_in(offsets)
        if self._acknowledged:
            # Other lanes wait for the same request.
            await asyncio.shield(committed)


def plain(
    partition: int, *, settings: StreamSettings, commits: OffsetCommits, acknowledged: bool
) -> TransactionalProducer:
    """Return a lane's producer without transactions, with the sizes and waits of the real one."""
    options: dict[str, Any] = (
        {"acks": "all", "enable_idempotence": True} if acknowledged else {"acks": 0}
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers,
        client_id=f"{settings.client_id}-{settings.group}-{partition}",
        request_timeout_ms=settings.request_timeout_ms,
        retry_backoff_ms=RETRY_BACKOFF_MS,
        linger_ms=0,
        max_batch_size=MAX_BATCH_BYTES,
        max_request_size=settings.max_record_bytes + MAX_BATCH_BYTES,
        **options,
    )
    return PlainProducer(producer, commits, acknowledged=acknowledged)


def without_transactions(mode: Mode) -> None:
    """Let this process's role own its lanes with plain producers."""

    def build(settings: StreamSettings, **more: Any) -> StreamApp:
        app = build_app(settings, **more)

        async def commit(offsets: Mapping[TopicPartition, int]) -> bool:
            # The consumer's own commit: Faust's is switched off in the lanes' consumer.
            consumer = app.consumer
            assert isinstance(consumer, LaneConsumer)
            committed: bool = await consumer.positions.commit(offsets)
            return committed

        app.ownership = Ownership(
            app.role,
            producer=functools.partial(
                plain, commits=OffsetCommits(commit), acknowledged=mode == "acknowledged"
            ),
        )
        return app

    roles.build_app = build  # type: ignore[attr-defined]


def main() -> None:
    options = read()
    mode: Mode = next(mode for mode in get_args(Mode) if mode == sys.argv[2])
    watch(options.meter)
    if mode != "transactions":
        without_transactions(mode)
    roles.run("decide", options.settings)


if __name__ == "__main__":
    main()
