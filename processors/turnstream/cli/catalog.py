"""`turnstream catalog`: check and show a catalog."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from turnstream.catalog import LoadedCatalog
    from turnstream.catalog.lint import Finding

app = typer.Typer(no_args_is_help=True, help="Check and show the catalog.")

_FOUND = 1
_COULD_NOT_RUN = 2

_CONFIG = Path("turnstream.yaml")
_COLOURS = {"error": "red", "warning": "yellow", "info": "blue"}


class Output(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


PathArgument = Annotated[
    Path | None,
    typer.Argument(help="The catalog; by default the one that the configuration names."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The configuration; by default turnstream.yaml, if any."),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Write text or JSON.")]


@app.command()
def check(
    path: PathArgument = None,
    config: ConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Find what is wrong or unwise in a catalog.

    With a configuration, the deciders of its agents are looked for there.

    Ends with 0 when there is nothing to mend (advice of severity info does not count), 1 when there
    are errors or warnings, and 2 when the catalog could not be read.
    """
    from turnstream.catalog import CatalogError
    from turnstream.catalog.lint import lint

    where, deciders = _catalog_of(path, config)
    try:
        findings = lint(where, deciders=deciders)
    except CatalogError as error:
        _stop(error)
    if output is Output.JSON:
        _print_json([finding.as_json() for finding in findings])
    else:
        _print_findings(findings, where)
    if any(finding.severity != "info" for finding in findings):
        raise typer.Exit(_FOUND)


@app.command()
def show(
    path: PathArgument = None,
    config: ConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show a catalog's versions, tools, fields, answers and rules.

    Ends with 1 when the catalog has faults, 2 when the configuration has.
    """
    from turnstream.catalog import CatalogError, load_catalog

    try:
        loaded = load_catalog(_catalog_of(path, config)[0])
    except CatalogError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_FOUND) from error
    if output is Output.JSON:
        _print_json(
            {
                "path": str(loaded.path),
                "decision_version": loaded.decision_version,
                "presentation_version": loaded.presentation_version,
                "catalog": loaded.catalog.model_dump(mode="json", by_alias=True),
            }
        )
    else:
        _print_catalog(loaded)


def _catalog_of(path: Path | None, config: Path | None) -> tuple[Path, frozenset[str] | None]:
    """The catalog that is meant, and the configured deciders where there is a configuration."""
    from turnstream.config import ConfigurationError, load_settings

    if path is not None and config is None:
        return path, None  # the configuration that happens to be here may be of another catalog
    if config is None and _CONFIG.exists():
        config = _CONFIG
    try:
        settings = load_settings(config)
    except ConfigurationError as error:
        _stop(error)
    deciders = None if config is None else frozenset(settings.deciders)
    return path or settings.catalog, deciders


def _stop(error: Exception) -> NoReturn:
    typer.echo(str(error), err=True)
    raise typer.Exit(_COULD_NOT_RUN) from error


def _print_json(value: object) -> None:
    import orjson

    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def _print_findings(findings: "list[Finding]", path: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    for finding in findings:
        place = finding.file if finding.line is None else f"{finding.file}:{finding.line}"
        where = f"{finding.path}: " if finding.path else ""
        console.print(
            Text.assemble(
                f"{place}: ",
                (finding.severity, _COLOURS[finding.severity]),
                f" {where}{finding.message} [{finding.code}]",
            )
        )
    counts = [
        f"{sum(finding.severity == severity for finding in findings)} {severity}"
        for severity in _COLOURS
    ]
    console.print(Text(f"{path}: {', '.join(counts)}"))


def _print_catalog(loaded: "LoadedCatalog") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(f"{loaded.path}"))
    console.print(Text(f"decision version      {loaded.decision_version}"))
    console.print(Text(f"presentation version  {loaded.presentation_version}"))
    for table in _tables(loaded):
        console.print(table)


def _tables(loaded: "LoadedCatalog") -> "list[Table]":
    catalog = loaded.catalog
    return [
        _table(
            ("Tool", "Effect", "Scope", "Arguments", "Threshold", "Description"),
            [
                (
                    name,
                    tool.effect,
                    tool.data_scope,
                    "\n".join(
                        f"{argument} ({', '.join(source.provenance)})"
                        for argument, source in tool.arguments.items()
                    ),
                    "-" if tool.threshold is None else f"{tool.threshold:g}",
                    tool.description,
                )
                for name, tool in catalog.tools.items()
            ],
        ),
        _table(
            ("Field", "Type", "Question"),
            [
                (name, entry.type, "\n".join((entry.question or {}).values()))
                for name, entry in catalog.fields.items()
            ],
        ),
        _table(
            ("Answer", "Of tool", "Locales", "Description"),
            [
                (name, answer.of_tool or "-", ", ".join(answer.text), answer.description)
                for name, answer in catalog.answers.items()
            ],
        ),
        _table(
            ("Rule", "Locales", "Description"),
            [
                (name, ", ".join(rule.text), rule.description)
                for name, rule in catalog.rules.items()
            ],
        ),
        _table(
            ("Queue", "Causes", "Description"),
            [
                (
                    name,
                    "every other" if name == catalog.default_queue else ", ".join(queue.causes),
                    queue.description,
                )
                for name, queue in catalog.queues.items()
            ],
        ),
        _table(
            ("Channel", "Type", "Questions"),
            [
                (name, channel.type, "yes" if channel.interactive else "no")
                for name, channel in catalog.channels.items()
            ],
        ),
    ]


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
