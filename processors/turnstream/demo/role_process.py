"""A role as one of the demo's processes: whether it is ready, and how far it has come.

Both are read from its own ``/metrics``, as an operator would; its address is in its log.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx
import orjson
from prometheus_client.parser import text_string_to_metric_families

from turnstream.demo.children import Child

READY_SECONDS: Final = 60.0
"""A role is ready in a few seconds; on a busy machine ten times that, never for ever."""

_POLL_SECONDS: Final = 0.05
_SCRAPE_SECONDS: Final = 10.0
"""One scrape takes milliseconds; a process that hangs must not hang the demo."""

_OWNED: Final = "turnstream_partitions_owned"
_COMMITTED: Final = "turnstream_committed_offset"


class NotReady(Exception):
    """A role did not come up, or does not get on, in time; the message ends with its log."""


@dataclass
class RoleProcess:
    """A running role."""

    name: str
    child: Child
    http: httpx.AsyncClient
    url: str | None = None

    async def ready(self, partitions: int) -> None:
        """Wait until it owns its partitions.

        Raises:
            NotReady: Not in time.
        """
        try:
            async with asyncio.timeout(READY_SECONDS):
                while True:
                    if await self._owned() == partitions:
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise NotReady(
                f"{self.name} was not ready within {READY_SECONDS:g} s; its log is "
                f"{self.child.log}. It ended with:\n{self.child.tail()}"
            ) from None

    async def reached(self, needed: Mapping[tuple[str, int], int], *, seconds: float) -> None:
        """Wait until it has committed past records.

        Args:
            needed: Logical topic and partition to the offset that must be committed.
            seconds: The deadline.

        Raises:
            NotReady: Not in time.
        """
        committed: Mapping[tuple[str, int], int] = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    committed = await self._committed()
                    if all(committed.get(tp, 0) >= offset for tp, offset in needed.items()):
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            behind = ", ".join(
                f"{topic}/{partition} at {committed.get((topic, partition), 0)} of {offset}"
                for (topic, partition), offset in needed.items()
                if committed.get((topic, partition), 0) < offset
            )
            raise NotReady(
                f"{self.name} did not get on within {seconds:g} s ({behind}); its log is "
                f"{self.child.log}. It ended with:\n{self.child.tail()}"
            ) from None

    async def _owned(self) -> int:
        if self.url is None:
            self.url = self._logged_url()
        if self.url is None:
            return 0
        return int(sum((await self._samples(_OWNED)).values()))

    async def _committed(self) -> Mapping[tuple[str, int], int]:
        samples = await self._samples(_COMMITTED)
        return {
            (dict(labels)["topic"], int(dict(labels)["partition"])): int(value)
            for labels, value in samples.items()
        }

    async def _samples(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        try:
            page = await self.http.get(f"{self.url}", timeout=_SCRAPE_SECONDS)
        except httpx.TransportError:
            return {}  # not yet, or not any more: whoever watches the process says so
        return {
            tuple(sample.labels.items()): sample.value
            for family in text_string_to_metric_families(page.text)
            if family.name == name
            for sample in family.samples
        }

    def _logged_url(self) -> str | None:
        for line in self.child.log.read_bytes().splitlines():
            if b'"metrics"' not in line:
                continue
            try:
                entry = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if entry.get("event") == "metrics" and "url" in entry:
                return str(entry["url"])
        return None
