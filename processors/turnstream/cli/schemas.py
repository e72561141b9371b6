"""`turnstream schemas`: check the packaged event schemas, and bring them to a registry."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnstream.cli.run import default_config

if TYPE_CHECKING:
    from turnstream.config import Settings
    from turnstream.stream.registry import SubjectView

app = typer.Typer(no_args_is_help=True, help="Check the event schemas, and register them.")

_FOUND = 1
_COULD_NOT_RUN = 2


class Output(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


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


@app.command()
def register(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Compare with the registry, and change nothing.")
    ] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Write text or JSON.")
    ] = Output.TEXT,
) -> None:
    """Register the newest schema of every topic with the configured registry, or none of them.

    The roles do so themselves at each start, for the topics that they write; this is for
    deployments whose roles may only read there. Ends with 0, or with 1 when the registry would not
    take one of them, or with 2 when there is no registry or it does not answer.
    """
    import orjson
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
    from turnstream.resources import MissingContracts
    from turnstream.stream.contracts import UnusableSchema
    from turnstream.stream.registry import SchemasUnavailable

    try:
        settings = load_settings(config or default_config())
        found = asyncio.run(_registered(settings, change=not dry_run))
    except (
        ConfigurationError,
        MissingContracts,
        SchemasUnavailable,
        SecretUnavailable,
        UnusableSchema,
    ) as error:
        typer.echo(f"turnstream schemas: {error}", err=True)
        raise typer.Exit(_COULD_NOT_RUN) from error
    if output is Output.JSON:
        typer.echo(orjson.dumps(found).decode())
    else:
        table = Table("subject", "in the registry")
        for one in found:
            table.add_row(escape(one.subject), one.state)
        Console().print(table)
    if any(one.state == "incompatible" for one in found):
        raise typer.Exit(_FOUND)


async def _registered(settings: "Settings", *, change: bool) -> "tuple[SubjectView, ...]":
    """The subjects, with our schemas in them unless one is refused or nothing is to change."""
    from turnstream.stream.contracts import EVENTS
    from turnstream.stream.registry import (
        RegistryClient,
        SchemasUnavailable,
        codec_for,
        publish_schemas,
        store_for,
        subjects_of,
    )

    client = store_for(settings)
    if not isinstance(client, RegistryClient):
        raise SchemasUnavailable(
            "no registry is configured: set registry.url, or let the roles publish their schemas "
            f"to {settings.topics.name('turnstream.schemas')} as they do now"
        )
    found = await subjects_of(settings, client)
    if not change or all(one.state == "registered" for one in found):
        return found
    if any(one.state == "incompatible" for one in found):
        return found
    await publish_schemas(codec_for(settings), EVENTS, settings=settings)
    return await subjects_of(settings, client)
