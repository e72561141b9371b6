"""What a peer is started with."""

import asyncio
import sys
from collections.abc import Awaitable
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from benchmarks.meter import Meter
from benchmarks.work import settings as work_settings
from turnstream.config import Settings


class Options(NamedTuple):
    """The command line, read."""

    settings: Settings
    meter: Meter
    group: str
    folder: Path
    """For files of the peer's own."""


def read() -> Options:
    """Read the one JSON argument."""
    given: dict[str, Any] = orjson.loads(sys.argv[1])
    folder = Path(given["folder"])
    settings = work_settings(
        given["bootstrap"],
        given["prefix"],
        delay_seconds=given.get("delay_seconds", 0.0),
        turns=given.get("turns", 0),
        stream=given.get("stream", {}),
        **given.get("more", {}),
    )
    return Options(settings, Meter(folder / "meter"), f"{given['prefix']}group", folder)


def waited(outcome: Any) -> Any:
    """Return a result at once, waiting for it where the decider is slow; for synchronous peers."""
    if isawaitable(outcome):
        return asyncio.run(_result(outcome))
    return outcome


async def _result(outcome: Awaitable[Any]) -> Any:
    return await outcome
