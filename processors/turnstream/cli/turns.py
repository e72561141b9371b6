"""``turnstream turns``: real input from files and pipes."""

import asyncio
import logging
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Literal, NoReturn

import typer

from turnstream.cli.interrupts import INTERRUPTED, ending_at_once

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from turnstream.config import Settings

app = typer.Typer(no_args_is_help=True, help="Send turns from a file.")

EventKind = Literal["turn", "control", "live-action"]

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
    its file, number and reason, and so is one whose record the roles or the broker do not take; the
    rest is sent. Ends with 0, or with 1 when a line was not sent, 2 when nothing could be, 130 when
    interrupted.
    """
    with ending_at_once():
        from rich.console import Console

        from turnstream.cli.run import default_config
        from turnstream.cli.sending import Sender
        from turnstream.cli.turn_lines import LineReader
        from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
        from turnstream.roles.writing import MODELS, EventWriter, WritingError
        from turnstream.stream.registry import SchemasUnavailable

    # The Kafka client's notices would break the progress bar.
    logging.getLogger().setLevel(logging.WARNING)
    console = Console(stderr=True, highlight=False)
    interrupted = False
    try:
        settings = load_settings(config or default_config())
        no_channel = ""
        if event == "turn" and channel is None:
            channel, no_channel = api_channel(settings)
        model = MODELS[event]
        writer = EventWriter(settings, topics={model: topic} if topic is not None else None)
        reader = LineReader(event, channel, no_channel=no_channel)
        with ExitStack() as cleanup:
            name, source, size = _opened(file, cleanup)
            progress = cleanup.enter_context(_progress(console, size=size))
            sender = Sender(
                writer, reader, name=name, console=console, progress=progress, size=size
            )
            try:
                asyncio.run(sender.send(source.fileno(), rate=rate))
            except KeyboardInterrupt:
                interrupted = True
    except (
        ConfigurationError,
        OSError,
        SchemasUnavailable,
        SecretUnavailable,
        WritingError,
    ) as error:
        _stop(error)
    typer.echo(
        f"{'interrupted: ' if interrupted else ''}"
        f"{sender.sent:,} sent to {writer.topic(model)} in "
        f"{_counted(len(sender.conversations), 'conversation')}, "
        f"{sender.refused:,} refused, {sender.seconds:.1f} s"
    )
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if sender.refused:
        raise typer.Exit(_FOUND)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _opened(file: Path, cleanup: ExitStack) -> tuple[str, BinaryIO, int | None]:
    """Name, source and size in bytes, None where it is not known."""
    if str(file) == "-":
        return "stdin", sys.stdin.buffer, None
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such file; - reads standard input")
    if file.is_dir():
        raise IsADirectoryError(f"{file}: a folder; expected a file of JSON lines")
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


def api_channel(settings: "Settings") -> tuple[str | None, str]:
    """The channel of turns that name none, and why there is none.

    Without one, lines that name no channel are refused, each with this reason; others are sent.
    """
    from turnstream.catalog import CatalogError, load_catalog

    remedy = "name one here or with --channel"
    try:
        channels = load_catalog(settings.catalog).catalog.channels
    except CatalogError as error:
        return None, f"no catalog to take a default from ({error.faults[0]}); {remedy}"
    for name, channel in channels.items():
        if channel.type == "api":
            return name, ""
    known = ", ".join(channels)
    return None, f"the catalog has no channel of type api to default to ({known}); {remedy}"


def _stop(error: Exception) -> NoReturn:
    typer.echo(f"turnstream turns send: {error}", err=True)
    raise typer.Exit(_COULD_NOT_RUN) from error
