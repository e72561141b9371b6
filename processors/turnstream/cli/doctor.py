"""``turnstream doctor``: what is wrong with a deployment, and what to do about it."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from turnstream import __version__
from turnstream.cli.findings import Finding, fail, failing, ok, warn
from turnstream.cli.run import default_config

_PACKAGES: Final = ("faust-streaming", "aiokafka", "fastavro", "pydantic", "httpx")
"""Whose versions matter when something on the wire goes wrong."""

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output")] = "table",
) -> None:
    """Check configuration, models, tools, secrets, broker, topics, groups; say what to do.

    Every line says ok, warn or fail. Ends with 0 when nothing failed, else with 1.
    """
    import orjson
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    # What is wrong becomes a finding; the Kafka client's notices would stand between them.
    logging.getLogger().setLevel(logging.WARNING)
    findings = list(examine(config or default_config()))
    if output == "json":
        typer.echo(orjson.dumps(findings).decode())
    else:
        table = Table("check", "status", show_lines=True)
        for column in ("found", "what to do"):
            table.add_column(column, overflow="fold")  # a path cut short helps nobody
        for one in findings:
            status = f"[{_COLOURS[one.status]}]{one.status}[/]"
            table.add_row(one.check, status, escape(one.detail), escape(one.remedy))
        Console().print(table)
    if failing(findings):
        raise typer.Exit(1)


def examine(config: Path | None) -> Iterator[Finding]:
    """Look at everything in the order of need; what depends on a fault is left out."""
    from turnstream.catalog import CatalogError
    from turnstream.cli.examine_cluster import examine_cluster
    from turnstream.cli.examine_models import examine_models
    from turnstream.cli.examine_servers import examine_servers
    from turnstream.cli.examine_tools import examine_secrets, examine_tools
    from turnstream.config import ConfigurationError, load_settings, near_variables
    from turnstream.roles.deployment import Deployment

    yield _versions()
    for name, meant in near_variables():
        detail = f"{name} is set and names no key: nothing comes of it"
        yield warn("configuration", detail, f"set {meant} if that is meant, else remove it")
    try:
        settings = load_settings(config)
    except ConfigurationError as error:
        yield fail("configuration", str(error), "mend the lines named")
        return
    yield ok("configuration", str(config or "defaults and environment"))
    deployment = Deployment(settings, settings.catalog)
    catalog = None
    try:
        loaded = deployment.loaded
    except CatalogError as error:
        yield fail("catalog", str(error), "mend the lines named")
    else:
        catalog = loaded.catalog
        yield ok("catalog", f"{len(catalog.tools)} tools, version {loaded.decision_version}")
        yield from examine_models(deployment)
        yield from examine_tools(deployment.ruleset, settings)
        yield from examine_servers(deployment.catalog, settings)
    yield from examine_secrets(settings, catalog)
    yield from asyncio.run(examine_cluster(settings))


def _versions() -> Finding:
    found = [f"turnstream {__version__}", f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} of unknown version")
    return ok("versions", ", ".join(found))
