"""Where a new group starts is decided once, however many of its processes start together."""

import asyncio

import pytest

from tests.integration.test_lanes import PARTITIONS, lanes_on
from turnstream.stream import start
from turnstream.stream.settings import StreamSettings


async def test_a_start_that_comes_second_moves_no_offset(
    kafka_bootstrap: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has found none committed, but what came after the other's commit must be read."""
    resolve = start._resolve
    second: list[asyncio.Task[object]] = []
    async with lanes_on(kafka_bootstrap, topic_prefix) as lanes:
        settings = StreamSettings(
            bootstrap_servers=kafka_bootstrap,
            group=lanes.group,
            role="decide",
            sources=tuple(lanes.sources),
            changelog=f"{topic_prefix}changelog",
            start_from="latest",
        )

        async def overtaken(*arguments: object, **options: object) -> object:
            if not second:
                second.append(asyncio.create_task(start.check_start(settings)))
                await second[0]
                await lanes.produce(40, keys=8, value="new")
            return await resolve(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(start, "_resolve", overtaken)
        await lanes.produce(80, keys=8, value="old")
        found = await start.check_start(settings)

        assert PARTITIONS == found.partitions
        assert 80 == sum((await lanes.committed()).values())
        assert 2 * PARTITIONS == len(await lanes.committed())
