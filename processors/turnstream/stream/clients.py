"""Kafka clients for a short while."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


@asynccontextmanager
async def started(client: AIOKafkaConsumer | AIOKafkaProducer) -> AsyncGenerator[None]:
    """Start a client and stop it at the end.

    Its own context manager leaves a client open that could not be started, and complains of that
    in the log beside the error that matters.
    """
    try:
        await client.start()
        yield
    finally:
        await client.stop()
