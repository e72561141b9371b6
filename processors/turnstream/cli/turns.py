"""``turnstream turns``: real input from files and pipes."""

import asyncio
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from aiokafka.structs import RecordMetadata
    from rich.console import Console
    from rich.progress import Progress

    from turnstream.cli.turn_lines import LineReader
    from turnstream.config import Settings
    from turnstream.roles.gateway import Gateway

app = typer.Typer(no_args_is_help=True, help="Send turns from a file.")

EventKind = Literal["turn", "control", "live-action"]

_IN_FLIGHT: Final = 5_000
"""Records handed over and not confirmed: bounds memory when the broker is slow."""

_SHOWN_ERRORS: Final = 50
"""Bad lines that are named: a file of another kind must not flood the terminal."""

_CHUNK_BYTES: Final = 262_144
"""Read at once: bounds what a fast source puts into memory."""

_FOUND: Final = 1
_COULD_NOT_RUN: Final = 2


@app.callback()
def _turns() -> None:
    """Send turns from a file."""


@app.command()
def send(  # noqa: PLR0917 - typer calls it by name
    file: Annotated[
        Path,
        typer.Argument(help="JSON lines; - reads standard input.", allow_dash=True),
    ],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Physical topic; by default the configured one.")
    ] = None,
    event: Annotated[EventKind, typer.Option("--event", help="What the lines are.")] = "turn",
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel",
            help="Channel of turns that name none; by default the catalog's first of type api.",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="Lines per second at most.")
    ] = None,
) -> None:
    """Send JSON lines to a topic, each conversation's in the order of the lines.

    A line is a ConversationTurn, or what an API caller sends:
    {"session_id": ..., "payload": {"user_message": ...}}. A line that is neither is reported with
    its file, number and reason, and the rest is sent. Ends with 0, or with 1 when a line was not
    sent, or with 2 when nothing could be.
    """
    from rich.console import Console

    from turnstream.cli.run import default_config
    from turnstream.cli.turn_lines import LineReader
    from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
    from turnstream.roles.gateway import MODELS, Gateway, GatewayError
    from turnstream.stream.registry import SchemasUnavailable

    # The Kafka client's notices would break the progress bar.
    logging.getLogger().setLevel(logging.WARNING)
    console = Console(stderr=True, highlight=False)
    try:
        settings = load_settings(config or default_config())
        if event == "turn" and channel is None:
            channel = _api_channel(settings)
        model = MODELS[event]
        gateway = Gateway(settings, topics={model: topic} if topic is not None else None)
        reader = LineReader(event, channel)
        with ExitStack() as cleanup:
            name, source, size = _opened(file, cleanup)
            progress = cleanup.enter_context(_progress(console, size=size))
            sender = Sender(
                gateway, reader, name=name, console=console, progress=progress, size=size
            )
            asyncio.run(sender.send(source, rate=rate))
    except (
        ConfigurationError,
        GatewayError,
        OSError,
        SchemasUnavailable,
        SecretUnavailable,
    ) as error:
        _stop(error)
    typer.echo(
        f"{sender.sent:,} sent to {gateway.topic(model)} in "
        f"{len(sender.conversations):,} conversations, "
        f"{sender.refused:,} refused, {sender.seconds:.1f} s"
    )
    if sender.refused:
        raise typer.Exit(_FOUND)


@dataclass
class Sender:
    """Sends the lines of one input and counts."""

    gateway: "Gateway"
    reader: "LineReader"
    name: str
    """What the input is called in errors."""
    console: "Console"
    progress: "Progress"
    size: int | None = None
    """Bytes of the input, where known."""
    sent: int = 0
    refused: int = 0
    seconds: float = 0.0
    conversations: set[str] = field(default_factory=set)
    _in_flight: "deque[tuple[int, asyncio.Future[RecordMetadata]]]" = field(default_factory=deque)

    async def send(self, source: BinaryIO, *, rate: float | None) -> None:
        """Send all lines.

        Raises:
            GatewayError: Nothing can be sent.
        """
        began = time.monotonic()
        task = self.progress.add_task(self.name, total=self.size)
        async with self.gateway:
            chunks = _line_chunks(source)
            number = 0
            # Reading may wait for a pipe; the broker's confirmations must not wait with it.
            while (lines := await asyncio.to_thread(next, chunks, None)) is not None:
                for line in lines:
                    number += 1
                    if rate is not None:
                        pause = began + (number - 1) / rate - time.monotonic()
                        await asyncio.sleep(max(0.0, pause))
                    await self._line(line, number)
                    self.progress.advance(task, len(line))
            while self._in_flight:
                await self._confirm()
        self.seconds = time.monotonic() - began

    async def _line(self, line: bytes, number: int) -> None:
        from turnstream.cli.turn_lines import BadLine
        from turnstream.stream.codec import Unencodable

        if not line.strip():
            return
        try:
            event = self.reader.read(line, number=number)
            handed_over = await self.gateway.begin(event)
        except (BadLine, Unencodable) as error:
            self._refuse(number, str(error))
            return
        self.conversations.add(event.conversation_id)
        self._in_flight.append((number, handed_over))
        while len(self._in_flight) > _IN_FLIGHT:
            await self._confirm()

    async def _confirm(self) -> None:
        from aiokafka.errors import KafkaError

        number, handed_over = self._in_flight.popleft()
        try:
            await handed_over
        except KafkaError as error:
            self._refuse(number, f"the broker did not take it: {error!r}")
        else:
            self.sent += 1

    def _refuse(self, number: int, reason: str) -> None:
        self.refused += 1
        if self.refused <= _SHOWN_ERRORS:
            self.console.print(f"{self.name}:{number}: {reason}", markup=False, soft_wrap=True)
        elif self.refused == _SHOWN_ERRORS + 1:
            self.console.print("further lines are counted, not named")


def _line_chunks(source: BinaryIO) -> Iterator[list[bytes]]:
    """Give the lines that are there, as they come: a pipe is not waited for to fill a buffer."""
    rest = b""
    while chunk := os.read(source.fileno(), _CHUNK_BYTES):
        *lines, rest = (rest + chunk).splitlines(keepends=True)
        if rest.endswith(b"\n"):
            lines.append(rest)
            rest = b""
        yield lines
    if rest:
        yield [rest]


def _opened(file: Path, cleanup: ExitStack) -> tuple[str, BinaryIO, int | None]:
    """Name, source and size in bytes, None where it is not known."""
    if str(file) == "-":
        return "stdin", sys.stdin.buffer, None
    source = cleanup.enter_context(file.open("rb"))
    size = os.fstat(source.fileno()).st_size
    return str(file), source, size or None


def _progress(console: "Console", *, size: int | None) -> "Progress":
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    known = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    open_ended = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    return Progress(
        TextColumn("{task.description}"),
        *(known if size is not None else open_ended),
        console=console,
        disable=not console.is_terminal,
    )


def _api_channel(settings: "Settings") -> str | None:
    """The channel of turns that name none: the catalog's first of type api, if there is one."""
    from turnstream.catalog import CatalogError, load_catalog

    try:
        channels = load_catalog(settings.catalog).catalog.channels
    except CatalogError:
        return None  # lines without a channel are then refused, each with its reason
    return next((name for name, channel in channels.items() if channel.type == "api"), None)


def _stop(error: Exception) -> NoReturn:
    typer.echo(f"turnstream turns send: {error}", err=True)
    raise typer.Exit(_COULD_NOT_RUN) from error
