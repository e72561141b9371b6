"""``turnstream doctor``: what is wrong with a deployment, and what to do about it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from turnstream.cli.run import default_config

_TIMEOUT_SECONDS = 10
"""How long the broker may take to answer: a doctor that hangs helps nobody."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    status: Literal["ok", "problem"]
    detail: str
    remedy: str = ""


def doctor(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output")] = "table",
) -> None:
    """Check configuration, catalog, deciders, broker and topics; say what to do."""
    import orjson
    from rich.console import Console
    from rich.table import Table

    findings = list(examine(config or default_config()))
    if output == "json":
        typer.echo(orjson.dumps([_as_json(one) for one in findings]).decode())
    else:
        table = Table("check", "status", "found", "what to do", show_lines=True)
        for one in findings:
            colour = "green" if one.status == "ok" else "red"
            table.add_row(one.check, f"[{colour}]{one.status}[/]", one.detail, one.remedy)
        Console().print(table)
    if any(one.status == "problem" for one in findings):
        raise typer.Exit(1)


def examine(config: Path | None) -> Iterator[Finding]:
    """Look at everything in the order of need; what depends on a fault is left out."""
    from turnstream.catalog import CatalogError
    from turnstream.config import ConfigurationError, load_settings
    from turnstream.roles.deployment import Deployment

    try:
        settings = load_settings(config)
    except ConfigurationError as error:
        yield Finding("configuration", "problem", str(error), "mend the lines named")
        return
    yield Finding("configuration", "ok", str(config or "defaults and environment"))
    deployment = Deployment(settings, settings.catalog)
    try:
        loaded = deployment.loaded
    except CatalogError as error:
        yield Finding("catalog", "problem", str(error), "mend the lines named")
    else:
        tools = len(loaded.catalog.tools)
        yield Finding("catalog", "ok", f"{tools} tools, version {loaded.decision_version}")
        yield from _deciders(deployment)
    yield from asyncio.run(_cluster(settings))


def _deciders(deployment: Any) -> Iterator[Finding]:  # noqa: ANN401 - imported when it runs
    try:
        names = sorted({decider.name for decider in deployment.deciders().values()})
        deployment.candidate()
    except Exception as error:  # noqa: BLE001 - a user's factory may raise anything
        detail = f"{type(error).__name__}: {error}"
        yield Finding("models", "problem", detail, "mend the decider's section or its factory")
    else:
        yield Finding("models", "ok", ", ".join(names))


async def _cluster(settings: Any) -> list[Finding]:  # noqa: ANN401 - imported when it runs
    from turnstream.stream.topics import plan

    where = settings.kafka.bootstrap_servers
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            planned = await plan(settings)
    except Exception as error:  # noqa: BLE001 - anything here means the broker cannot be used
        detail = f"{where}: {type(error).__name__}: {error}"
        remedy = "check kafka.bootstrap_servers and that the broker runs"
        return [Finding("broker", "problem", detail, remedy)]
    findings = [Finding("broker", "ok", where)]
    problems = [str(change) for change in planned.changes]
    if problems:
        remedy = "turnstream topics apply"
        findings.append(Finding("topics", "problem", "\n".join(problems), remedy))
    else:
        findings.append(Finding("topics", "ok", "all there, equal partition counts"))
    return findings


def _as_json(one: Finding) -> dict[str, str]:
    return {
        "check": one.check,
        "status": one.status,
        "detail": one.detail,
        "remedy": one.remedy,
    }
