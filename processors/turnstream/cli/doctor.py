"""``turnstream doctor``: what is wrong with a deployment, and what to do about it."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from turnstream import __version__
from turnstream.cli.findings import Finding, fail, failing, ok, warn
from turnstream.cli.run import default_config

if TYPE_CHECKING:
    from turnstream.roles.deployment import Deployment

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
        yield from _models(deployment)
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


def _models(deployment: Deployment) -> Iterator[Finding]:
    """Make every decider and the classifier, as the roles would."""
    from turnstream.calibration import CalibrationRefused
    from turnstream.catalog import CatalogError
    from turnstream.catalog.unscored import unscored_advice
    from turnstream.config import PythonSettings
    from turnstream.config.connectors import unscored_in
    from turnstream.roles.deployment import DeploymentError, made_by

    settings = deployment.settings
    try:
        made = [*deployment.deciders().values()]
        candidate = deployment.candidate()
        made.append(candidate.calibrated(settings.shadow.decider, settings.shadow.calibration))
        names = {decider.name for decider in made}
        classifier = settings.classifiers[settings.classify.classifier]
        if isinstance(classifier, PythonSettings):
            where = f"classifiers.{settings.classify.classifier}"
            made_by(classifier, deployment.catalog, where=where, method="classify")
    except CatalogError as error:
        yield fail("models", str(error), "mend the lines named")
    except DeploymentError as error:
        yield fail("models", str(error), "mend the section named or its factory")
    except CalibrationRefused as error:
        yield fail("models", str(error), "calibrate again, or take the file out")
    else:
        yield ok("models", ", ".join(sorted(names)))
    for place, advice in unscored_advice(deployment.catalog, unscored_in(settings.deciders)):
        yield warn("models", f"agents.{place[1]}: {advice}", "see thresholds in the reference")
