"""Bounds the steps of taking partitions over: each asks the broker for something."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from turnstream.stream.role import Explained

STEP_SECONDS: Final = 60.0
"""Time for one answer of the broker. The clients wait without a bound for one that went away in the
middle. A process that ends is started again; one that waits for ever keeps its partitions."""


class TakeoverStalled(Explained):
    """The broker did not answer while partitions were taken over."""


@asynccontextmanager
async def step(what: str) -> AsyncIterator[None]:
    """Bound what is done inside.

    Args:
        what: what is asked for, for people.

    Raises:
        TakeoverStalled: there was no answer in time.
    """
    try:
        async with asyncio.timeout(STEP_SECONDS):
            yield
    except TimeoutError as error:
        raise TakeoverStalled(
            f"taking partitions over: no answer from the broker for {STEP_SECONDS:g} s to "
            f"{what}; see that the brokers of kafka.bootstrap_servers run and can be reached"
        ) from error
