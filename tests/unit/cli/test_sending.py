"""Sending: what is refused is named, what was refused with it is sent, and nothing waits."""

import asyncio
import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any, Self, cast

import pytest
from aiokafka.errors import InvalidTimestampError, KafkaError, OutOfOrderSequenceNumber
from rich.console import Console
from rich.progress import Progress

from turnstream.cli.sending import Sender, lines_of
from turnstream.cli.turn_lines import LONGEST_LINE_BYTES, Line, LineReader
from turnstream.core.events import ConversationTurn
from turnstream.roles.writing import EventWriter, RecordRefused

Confirmed = asyncio.Future[Any]


class Broker:
    """A writer on a broker that takes batches, refuses some, and then all that follow."""

    def __init__(self, *, batch: int = 3) -> None:
        self.batch = batch
        self.taken: list[str] = []
        self.open = False
        self.renewed = 0
        self.delivered = asyncio.Event()
        self._waiting: list[tuple[str, Confirmed]] = []
        self._broken = False

    async def __aenter__(self) -> Self:
        """Open."""
        self.open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._deliver()
        self.open = False

    async def begin(self, event: ConversationTurn) -> Confirmed:
        """Hand over; "huge" is refused before it is sent, "late" is refused by the broker."""
        if event.text == "huge":
            raise RecordRefused("too large")
        if event.text == "full" and self._broken:
            raise OutOfOrderSequenceNumber
        confirmed: Confirmed = asyncio.get_running_loop().create_future()
        self._waiting.append((event.text, confirmed))
        if len(self._waiting) >= self.batch:
            self._deliver()
        else:
            asyncio.get_running_loop().call_soon(self._deliver)
        return confirmed

    async def send(self, event: ConversationTurn) -> None:
        """Send alone."""
        confirmed = await self.begin(event)
        self._deliver()
        try:
            await confirmed
        except KafkaError as error:
            raise RecordRefused(f"the broker did not take it: {error!r}") from error

    async def renew(self) -> None:
        """Begin a new sequence."""
        assert [] == self._waiting
        self._broken = False
        self.renewed += 1

    def _deliver(self) -> None:
        batch, self._waiting = self._waiting, []
        error: KafkaError | None = OutOfOrderSequenceNumber() if self._broken else None
        if error is None and any(text == "late" for text, _ in batch):
            error, self._broken = InvalidTimestampError(), True
        for text, confirmed in batch:
            if error is None:
                self.taken.append(text)
                confirmed.set_result(None)
            else:
                confirmed.set_exception(error)
        self.delivered.set()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe's ends, closed in the end."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):  # the test may have closed it
            os.close(end)


def sender(broker: Broker, console: Console) -> Sender:
    """A sender to a broker."""
    return Sender(
        cast("EventWriter", broker),
        LineReader("turn", "api"),
        name="in",
        console=console,
        progress=Progress(disable=True),
    )


def said(console: Console) -> list[str]:
    """The lines that were printed."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


async def sent(broker: Broker, ends: tuple[int, int], *texts: str) -> tuple[Sender, list[str]]:
    """Send turns with these texts; the sender, and what it printed."""
    console = Console(file=io.StringIO(), width=200)
    one = sender(broker, console)
    for text in texts:
        os.write(ends[1], f'{{"conversation_id": "c", "text": "{text}"}}\n'.encode())
    os.close(ends[1])
    await one.send(ends[0], rate=None)
    return one, said(console)


async def test_all_are_sent_in_order(pipe: tuple[int, int]) -> None:
    """The plain case."""
    broker = Broker()
    texts = [str(number) for number in range(20)]

    one, errors = await sent(broker, pipe, *texts)

    assert texts == broker.taken
    assert (20, 0, {"c"}, []) == (one.sent, one.refused, one.conversations, errors)
    assert not broker.open


async def test_too_large_is_named_and_the_rest_is_sent(pipe: tuple[int, int]) -> None:
    """What is refused before it is sent costs nothing else."""
    broker = Broker()

    one, errors = await sent(broker, pipe, "a", "huge", "b")

    assert ["a", "b"] == broker.taken
    assert (2, 1, ["in:2: too large"]) == (one.sent, one.refused, errors)
    assert 0 == broker.renewed


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
async def test_a_refusal_by_the_broker_takes_nothing_else(
    pipe: tuple[int, int], batch: int
) -> None:
    """Records of its batch and those behind it are sent again, in order; it is named alone."""
    broker = Broker(batch=batch)

    one, errors = await sent(broker, pipe, "a", "b", "late", "d", "full", "f", "late", "h", "full")

    assert ["a", "b", "d", "full", "f", "h", "full"] == broker.taken
    assert (7, 2) == (one.sent, one.refused)
    assert [
        "in:3: the broker did not take it: InvalidTimestampError()",
        "in:7: the broker did not take it: InvalidTimestampError()",
    ] == [
        line.replace("[Error 32] InvalidTimestampError", "InvalidTimestampError()")
        for line in errors
    ]


async def test_a_line_that_is_too_long_is_named(pipe: tuple[int, int]) -> None:
    """With its number, and what follows is read."""
    good = b'{"conversation_id": "c", "text": "x"}\n'
    broker = Broker()
    console = Console(file=io.StringIO(), width=200)
    one = sender(broker, console)
    content = b"x" * (LONGEST_LINE_BYTES + 1) + b"\n" + good
    await asyncio.gather(asyncio.to_thread(_write, pipe[1], content), one.send(pipe[0], rate=None))

    assert (1, 1) == (one.sent, one.refused)
    assert ["in:1: too long: 4,194,306 bytes in one line"] == said(console)


def _write(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb") as file:
        file.write(content)


async def test_a_silent_input_does_not_hold_an_interrupt(pipe: tuple[int, int]) -> None:
    """Cancelled while the pipe is open and idle, the writer is closed and what was sent counts."""
    broker = Broker(batch=100)
    one = sender(broker, Console(quiet=True))
    os.write(pipe[1], b'{"conversation_id": "c", "text": "x"}\n')
    sending = asyncio.create_task(one.send(pipe[0], rate=None))
    async with asyncio.timeout(30):
        await broker.delivered.wait()
    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending
    assert not broker.open
    assert (1, 0) == (one.sent, one.refused)


async def test_lines_come_before_the_input_ends(pipe: tuple[int, int]) -> None:
    """A line is given when it is there."""
    lines = lines_of(pipe[0])
    os.write(pipe[1], b"a\nb")

    assert Line(b"a", 2) == await anext(lines)
    os.close(pipe[1])
    assert [Line(b"b", 1)] == [line async for line in lines]


async def test_files_are_read(tmp_path: Any) -> None:
    """A file on a disk, which cannot be waited for."""
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\n")
    with path.open("rb") as file:
        assert [Line(b"a", 2), Line(b"b", 2)] == [line async for line in lines_of(file.fileno())]
