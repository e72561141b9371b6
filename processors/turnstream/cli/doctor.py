"""``turnstream doctor``: what is wrong with a deployment, and what to do about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnstream.cli.run import default_config

if TYPE_CHECKING:
    from turnstream.config import Settings
    from turnstream.roles.deployment import Deployment

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
    from rich.markup import escape
    from rich.table import Table

    findings = list(examine(config or default_config()))
    if output == "json":
        typer.echo(orjson.dumps([_as_json(one) for one in findings]).decode())
    else:
        table = Table("check", "status", "found", "what to do", show_lines=True)
        for one in findings:
            colour = "green" if one.status == "ok" else "red"
            status = f"[{colour}]{one.status}[/]"
            table.add_row(one.check, status, escape(one.detail), escape(one.remedy))
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
        yield from _models(deployment)
    yield from asyncio.run(_cluster(settings))


def _models(deployment: Deployment) -> Iterator[Finding]:
    """Make every decider and the classifier, as the roles would."""
    from turnstream.catalog import CatalogError
    from turnstream.config import PythonSettings
    from turnstream.roles.deployment import DeploymentError, made_by

    settings = deployment.settings
    try:
        made = [*deployment.deciders().values()]
        made.append(deployment.candidate().decider(settings.shadow.decider))
        names = {decider.name for decider in made}
        classifier = settings.classifiers[settings.classify.classifier]
        if isinstance(classifier, PythonSettings):
            where = f"classifiers.{settings.classify.classifier}"
            made_by(classifier, deployment.catalog, where=where, method="classify")
    except CatalogError as error:
        yield Finding("models", "problem", str(error), "mend the shadow's catalog")
    except DeploymentError as error:
        yield Finding("models", "problem", str(error), "mend the section named or its factory")
    else:
        yield Finding("models", "ok", ", ".join(sorted(names)))


async def _cluster(settings: Settings) -> list[Finding]:
    from turnstream.config import SecretUnavailable
    from turnstream.stream.topics import TopicsUnsupported, plan

    where = settings.kafka.bootstrap_servers
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            planned = await plan(settings)
    except TopicsUnsupported as error:
        return [Finding("broker", "ok", where), Finding("topics", "ok", f"not looked at: {error}")]
    except SecretUnavailable as error:
        return [Finding("broker", "problem", str(error), "provide the secret")]
    except Exception as error:  # noqa: BLE001 - anything here means the broker cannot be used
        detail = f"{where}: {type(error).__name__}: {error}"
        remedy = "check kafka.bootstrap_servers and that the broker runs"
        return [Finding("broker", "problem", detail, remedy)]
    findings = [Finding("broker", "ok", where)]
    if not planned.changes:
        findings.append(Finding("topics", "ok", "all there, equal partition counts"))
        return findings
    remedies = {
        True: "turnstream topics apply",
        False: (
            "nothing changes this on a topic in use: set `partitions` or `replication_factor` as "
            "the topics are, or move to new topics by another `topics.prefix`"
        ),
    }
    for applicable, remedy in remedies.items():
        found = [str(change) for change in planned.changes if change.applicable is applicable]
        if found:
            findings.append(Finding("topics", "problem", "\n".join(found), remedy))
    return findings


def _as_json(one: Finding) -> dict[str, str]:
    return {
        "check": one.check,
        "status": one.status,
        "detail": one.detail,
        "remedy": one.remedy,
    }
