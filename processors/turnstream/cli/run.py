"""``turnstream run ROLE``: one role as a process."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from turnstream.cli.interrupts import stopping_at_once


class Role(enum.StrEnum):
    """The roles that can be run."""

    decide = "decide"
    execute = "execute"
    answer = "answer"
    classify = "classify"
    shadow = "shadow"


def run(
    role: Annotated[Role, typer.Argument(help="Which processor to run.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
) -> None:
    """Run one role until it is told to stop; SIGTERM drains and exits 0.

    Exits 2 on a fault of configuration or catalog, 4 when topics or offsets refuse the start, 3
    when delivery failed.
    """
    with stopping_at_once():
        _run(role, config)


def _run(role: Role, config: Path | None) -> None:
    from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
    from turnstream.core.errors import TurnstreamError
    from turnstream.metrics import MetricsAddressUnusable
    from turnstream.roles.deployment import DeploymentError
    from turnstream.roles.run import run as run_role

    try:
        run_role(role.value, load_settings(config or default_config()))
    except (
        ConfigurationError,
        DeploymentError,
        MetricsAddressUnusable,
        SecretUnavailable,
        # Of a catalog, or of a tool's binding: only `execute` may import those.
        TurnstreamError,
    ) as error:
        typer.echo(f"turnstream run {role.value}: not started\n{error}", err=True)
        raise typer.Exit(2) from error


def default_config() -> Path | None:
    """The configuration file of the working directory, if there is one."""
    path = Path("turnstream.yaml")
    return path if path.exists() else None
