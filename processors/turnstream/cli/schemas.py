"""`turnstream schemas`: check the packaged event schemas."""

from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Check the event schemas.")

_FOUND = 1
_COULD_NOT_RUN = 2


class Output(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


@app.callback()
def _group() -> None:
    """Check the event schemas."""


@app.command()
def check(
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Write text or JSON.")
    ] = Output.TEXT,
) -> None:
    """Check that all versions of each subject read each other and the newest equals its model.

    Needs no network. Ends with 0, or with 1 when there are findings, or with 2 when a file is no
    schema at all.
    """
    import orjson
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from turnstream.resources import MissingContracts
    from turnstream.stream.compatibility import check_packaged
    from turnstream.stream.contracts import EVENTS, UnusableSchema, packaged

    try:
        findings = check_packaged()
        versions = sum(len(packaged(topic)) for topic in EVENTS)
    except (MissingContracts, UnusableSchema, OSError) as error:
        typer.echo(f"turnstream schemas: {error}", err=True)
        raise typer.Exit(_COULD_NOT_RUN) from error
    if output is Output.JSON:
        typer.echo(orjson.dumps([finding._asdict() for finding in findings]).decode())
    elif findings:
        table = Table("file", "field", "fault")
        for finding in findings:
            table.add_row(*(escape(part) for part in finding))
        Console().print(table)
    else:
        Console().print(
            f"{len(EVENTS)} subjects, {versions} versions: compatible, equal to models."
        )
    if findings:
        raise typer.Exit(_FOUND)
