"""One input's way to its topic: read as it comes, sent in order, counted."""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata
from rich.console import Console
from rich.progress import Progress

from turnstream.cli.turn_lines import BadLine, Line, LineReader, LineSplitter
from turnstream.roles.writing import EventWriter, RecordRefused, Written
from turnstream.stream.codec import Unencodable

_IN_FLIGHT: Final = 5_000
"""Records handed over and not confirmed: bounds memory when the broker is slow."""

_SHOWN_ERRORS: Final = 50
"""Bad lines that are named: a file of another kind must not flood the terminal."""

_CHUNK_BYTES: Final = 262_144
"""Read at once: bounds what a fast source puts into memory."""


@dataclass(frozen=True, slots=True)
class _HandedOver:
    """A record that the broker has not confirmed yet."""

    number: int
    event: Written
    confirmed: asyncio.Future[RecordMetadata]


@dataclass
class Sender:
    """Sends the lines of one input and counts."""

    writer: EventWriter
    reader: LineReader
    name: str
    """What the input is called in errors."""
    console: Console
    progress: Progress
    size: int | None = None
    """Bytes of the input, where known."""
    sent: int = 0
    refused: int = 0
    seconds: float = 0.0
    conversations: set[str] = field(default_factory=set)
    _in_flight: deque[_HandedOver] = field(default_factory=deque)

    async def send(self, descriptor: int, *, rate: float | None) -> None:
        """Send all lines.

        Args:
            descriptor: Where to read.
            rate: Lines per second at most.

        Raises:
            WritingError: Nothing can be sent.
            SchemasUnavailable: The schemas cannot be published.
            OSError: The input cannot be read.
        """
        began = time.monotonic()
        task = self.progress.add_task(self.name, total=self.size)
        number = 0
        try:
            async with self.writer:
                async for line in lines_of(descriptor):
                    number += 1
                    if rate is not None:
                        pause = began + (number - 1) / rate - time.monotonic()
                        await asyncio.sleep(max(0.0, pause))
                    await self._line(line, number)
                    self.progress.advance(task, line.size)
                while self._in_flight:
                    await self._confirm()
        finally:
            # After an interrupt: what the broker has taken before the writer was closed.
            for one in self._in_flight:
                if one.confirmed.done() and one.confirmed.exception() is None:
                    self._count(one.event)
            self._in_flight.clear()
            self.seconds = time.monotonic() - began

    async def _line(self, line: Line, number: int) -> None:
        if line.content is None:
            self._refuse(number, f"too long: {line.size:,} bytes in one line")
            return
        if not line.content.strip():
            return
        try:
            event = self.reader.read(line.content, number=number)
            await self._hand_over(event, number)
        except (BadLine, RecordRefused, Unencodable) as error:
            self._refuse(number, str(error))
            return
        # Confirmed ones are let go: they hold what was sent.
        while self._in_flight and (
            len(self._in_flight) > _IN_FLIGHT or self._in_flight[0].confirmed.done()
        ):
            await self._confirm()

    async def _hand_over(self, event: Written, number: int) -> None:
        try:
            confirmed = await self.writer.begin(event)
        except KafkaError:
            await self._send_again()
            await self._send_alone(event, number)
        else:
            self._in_flight.append(_HandedOver(number, event, confirmed))

    async def _confirm(self) -> None:
        if await _taken(self._in_flight[0]):
            self._count(self._in_flight.popleft().event)
        else:
            await self._send_again()

    async def _send_again(self) -> None:
        """Find the record that was refused among those that were refused with it.

        A batch is refused as a whole, and so are all that follow it on its partition. None of them
        has been written: they are sent again in their order, each alone.
        """
        failed: list[_HandedOver] = []
        while self._in_flight:
            if await _taken(self._in_flight[0]):
                self._count(self._in_flight.popleft().event)
            else:
                failed.append(self._in_flight.popleft())
        await self.writer.renew()
        for one in failed:
            await self._send_alone(one.event, one.number)

    async def _send_alone(self, event: Written, number: int) -> None:
        try:
            await self.writer.send(event)
        except RecordRefused as error:
            self._refuse(number, str(error))
            await self.writer.renew()
        else:
            self._count(event)

    def _count(self, event: Written) -> None:
        self.sent += 1
        self.conversations.add(event.conversation_id)

    def _refuse(self, number: int, reason: str) -> None:
        self.refused += 1
        if self.refused <= _SHOWN_ERRORS:
            self.console.print(f"{self.name}:{number}: {reason}", markup=False, soft_wrap=True)
        elif self.refused == _SHOWN_ERRORS + 1:
            self.console.print("further lines are counted, not named")


async def _taken(one: _HandedOver) -> bool:
    if not one.confirmed.done():
        # Awaiting it directly would cancel it with us, and nobody would know what became of it.
        await asyncio.wait((one.confirmed,))
    try:
        one.confirmed.result()
    except KafkaError:
        return False
    return True


async def lines_of(descriptor: int) -> AsyncIterator[Line]:
    """Give the lines that are there, as they come: a pipe is not waited for to fill a buffer.

    The broker's confirmations and Ctrl-C do not wait for an input that is open and silent.
    """
    splitter = LineSplitter()
    while True:
        await _readable(descriptor)
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            continue  # another process reads here too, and was first
        if not chunk:
            break
        for line in splitter.feed(chunk):
            yield line
    for line in splitter.end():
        yield line


async def _readable(descriptor: int) -> None:
    """Return when reading would not wait."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        # A file on a disk: it never waits, but everything else must have its turn.
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
