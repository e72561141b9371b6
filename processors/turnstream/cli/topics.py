"""`turnstream topics`: compare a cluster with the topic definitions, and bring it to them."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from rich.console import Console

    from turnstream.stream.topics import Plan

app = typer.Typer(no_args_is_help=True, help="Create and check the topics.")

_FOUND = 1
_COULD_NOT_RUN = 2

_NOTHING_TO_DO = 0
_PLAN_FAILED = 1
_CHANGES_NEEDED = 2
"""What a pipeline asks of a plan; other commands use 2 for what could not run."""

_CONFIG = Path("turnstream.yaml")
_COLOURS = {
    "create": "green",
    "configure": "yellow",
    "replication": "yellow",
    "partitions": "red",
}


class Output(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The configuration; by default turnstream.yaml, if any."),
]
PartitionsOption = Annotated[
    int | None,
    typer.Option(
        "--partitions", min=1, help="Partitions of the conversations' topics; else configured."
    ),
]
ReplicationOption = Annotated[
    int | None,
    typer.Option("--replication", min=1, help="Replicas of every topic; else configured."),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Write text or JSON.")]


class _Plan(TyperCommand):
    """The one command whose 2 means something else than that it was called wrongly."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - typer's own
        """Let a wrong call end with 1."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:
            # Of which class it is depends on typer's version.
            if getattr(error, "exit_code", None) == _COULD_NOT_RUN:
                error.exit_code = _PLAN_FAILED  # type: ignore[attr-defined]
            raise


@app.command("plan", cls=_Plan)
def plan_command(
    config: ConfigOption = None,
    partitions: PartitionsOption = None,
    replication: ReplicationOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what apply would do; change nothing.

    Ends with 0 when there is nothing to do, with 2 when apply would change something, and with 1 on
    an error: wrong options, the cluster cannot be asked, or a topic has another partition count,
    which apply cannot mend. Another replica count is shown and does not count: roles work with it.
    """
    found = _run(config, partitions, replication, output, change=False)
    if found.blocked:
        raise typer.Exit(_PLAN_FAILED)
    needed = any(change.applicable for change in found.changes)
    raise typer.Exit(_CHANGES_NEEDED if needed else _NOTHING_TO_DO)


@app.command("apply")
def apply_command(
    config: ConfigOption = None,
    partitions: PartitionsOption = None,
    replication: ReplicationOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Create missing topics and alter settings that differ; never delete, never repartition.

    Ends with 0, or with 1 when a topic has another partition count, or with 2 when the cluster
    refuses.
    """
    if _run(config, partitions, replication, output, change=True).blocked:
        raise typer.Exit(_FOUND)


def _run(
    config: Path | None,
    partitions: int | None,
    replication: int | None,
    output: Output,
    *,
    change: bool,
) -> "Plan":
    from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
    from turnstream.resources import MissingContracts
    from turnstream.stream.topics import TopicsRefused, apply, plan

    path = config or (_CONFIG if _CONFIG.exists() else None)
    do = apply if change else plan
    try:
        settings = load_settings(path)
        found = asyncio.run(do(settings, partitions=partitions, replication_factor=replication))
    except (
        ConfigurationError,
        SecretUnavailable,
        MissingContracts,
        TopicsRefused,
        OSError,
    ) as error:
        typer.echo(f"turnstream topics: {error}", err=True)
        raise typer.Exit(_COULD_NOT_RUN if change else _PLAN_FAILED) from error
    if output is Output.JSON:
        _write_json(found, applied=change)
    else:
        _write_text(found, applied=change)
    return found


def _write_json(found: "Plan", *, applied: bool) -> None:
    import orjson

    changes = [
        {
            "topic": change.topic,
            "kind": change.kind,
            "detail": change.detail,
            "applied": applied and change.applicable,
        }
        for change in found.changes
    ]
    typer.echo(orjson.dumps({"topics": found.topics, "changes": changes}).decode())


def _write_text(found: "Plan", *, applied: bool) -> None:
    from rich.console import Console

    console = Console()
    if not found.changes:
        console.print(f"{found.topics} topics, all as they should be.")
        return
    if not console.is_terminal:
        for change in found.changes:
            left = "" if change.applicable else " (apply leaves it)"
            typer.echo(f"{change}{left}")
    else:
        _write_table(found, console, applied=applied)
    if found.blocked:
        console.print(
            "A partition count is never changed, since keys would move. Set `partitions` to what "
            "the topics have, or start anew under another `topics.prefix`.",
            soft_wrap=True,
        )


def _write_table(found: "Plan", console: "Console", *, applied: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for column in ("topic", "change", "detail", "done" if applied else "apply will"):
        table.add_column(column, overflow="fold")  # a name cut short cannot be looked for
    for change in found.changes:
        colour = _COLOURS[change.kind]
        done = "yes" if change.applicable else "no"
        table.add_row(
            escape(change.topic), f"[{colour}]{change.kind}[/]", escape(change.detail), done
        )
    console.print(table)
