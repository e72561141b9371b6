"""``turnstream shadow``: what a candidate would have done, beside what was done."""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from turnstream.cli.interrupts import INTERRUPTED, ending_at_once

if TYPE_CHECKING:
    from turnstream.core.publications import ShadowComparison

app = typer.Typer(no_args_is_help=True, help="Show how a candidate compares with what was done.")

_FOUND: Final = 1
_COULD_NOT_RUN: Final = 2


@app.callback()
def _shadow() -> None:
    """Show how a candidate compares with what was done."""


@app.command()
def report(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="Only compared at or after: 2026-01-31T12:00, or 2h ago as 2h."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Only compared before; as --since.")
    ] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", help="Only of this shadow.name.")
    ] = None,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output")] = "table",
) -> None:
    """Count shadow.comparisons: live actions by row, the candidate's by column.

    One table per candidate. Ends with 0, or with 1 when records are not understood, 2 when the
    comparisons could not be read, 130 when interrupted.
    """
    with ending_at_once():
        import orjson
        from rich import box
        from rich.console import Console
        from rich.text import Text

        from turnstream.cli.comparisons import read_comparisons
        from turnstream.cli.letter_filters import now_ms, time_of
        from turnstream.cli.run import default_config
        from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
        from turnstream.core.errors import TurnstreamError
        from turnstream.demo.agreement import Agreement

    # The Kafka client's notices would stand between the tables.
    logging.getLogger().setLevel(logging.WARNING)
    counted: dict[str, Agreement] = {}

    def take(comparison: "ShadowComparison") -> None:
        if candidate is None or comparison.candidate == candidate:
            counted.setdefault(comparison.candidate, Agreement()).add(comparison)

    try:
        settings = load_settings(config or default_config())
        now = now_ms()
        unread = asyncio.run(
            read_comparisons(
                settings,
                since=None if since is None else time_of(since, option="--since", now=now),
                until=None if until is None else time_of(until, option="--until", now=now),
                take=take,
            )
        )
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(INTERRUPTED) from interrupt
    except (ConfigurationError, OSError, SecretUnavailable, TurnstreamError) as error:
        typer.echo(f"turnstream shadow report: {error}", err=True)
        raise typer.Exit(_COULD_NOT_RUN) from error
    if output == "json":
        rows = {name: agreement.as_json() for name, agreement in sorted(counted.items())}
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        console = Console(highlight=False)
        for name, agreement in sorted(counted.items()):
            console.print(Text(f"{name}: {agreement.title}", style="bold"))
            console.print(agreement.table(box.SIMPLE_HEAD if console.is_terminal else box.ASCII2))
        if not counted:
            console.print("no comparisons")
    if unread:
        typer.echo(f"{unread:,} records are not understood, and not counted", err=True)
        raise typer.Exit(_FOUND)
