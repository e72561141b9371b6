"""`turnstream catalog`: check and show a catalog, validate arguments."""

import sys
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from pydantic import JsonValue
    from rich.table import Table

    from turnstream.catalog import LoadedCatalog
    from turnstream.catalog.differences import Difference
    from turnstream.catalog.lint import Finding
    from turnstream.core.nulls import Given

app = typer.Typer(no_args_is_help=True, help="Check and show the catalog; validate arguments.")

_FOUND = 1
_COULD_NOT_RUN = 2

_SHOWN_CHARACTERS = 400
"""Longest value in a difference: a pasted document must not fill the screen."""

_CONFIG = Path("turnstream.yaml")
_COLOURS = {"error": "red", "warning": "yellow", "info": "blue"}


class Output(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


class Surface(StrEnum):
    """What tools can be shown as."""

    OPENAI = "openai"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"
    MCP = "mcp"
    PROMPT = "prompt"


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

    With a configuration, the deciders of its agents are looked for there, and the time-outs of
    writes are held against `stream.grace_seconds`.

    Ends with 0 when there is nothing to mend (advice of severity info does not count), 1 when there
    are errors or warnings, and 2 when the catalog could not be read.
    """
    from turnstream.catalog import CatalogError
    from turnstream.catalog.lint import lint

    where, deciders, unscored, grace = _catalog_of(path, config)
    try:
        findings = lint(where, deciders=deciders, unscored=unscored, grace_seconds=grace)
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
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH|TOOL",
            help="The catalog, as for check; with --as, also the tools that are meant, or all. "
            "What has a dot or a slash is the catalog.",
        ),
    ] = None,
    config: ConfigOption = None,
    output: OutputOption = Output.TEXT,
    surface: Annotated[
        Surface | None,
        typer.Option("--as", help="Show the tools as models and MCP clients are told of them."),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict/--no-strict", help="OpenAI's strict mode, with --as openai*."),
    ] = True,
) -> None:
    """Show a catalog's versions, tools, fields, answers and rules.

    With --as, its tools as JSON in the form that models and MCP clients get; the prompt form is
    text unless JSON is asked for. Arguments that code fills in are not among them.

    Ends with 1 when a tool cannot be shown as that without loss, 2 when the catalog or the
    configuration has faults or there is no such tool.
    """
    from turnstream.catalog import CatalogError, load_catalog

    path, tools = _path_and_tools(names or [], tools_allowed=surface is not None)
    try:
        loaded = load_catalog(_catalog_of(path, config)[0])
    except CatalogError as error:
        _stop(error)
    try:
        if surface is not None:
            _print_tools(loaded, surface, strict=strict, names=tools, output=output)
            return
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


@app.command()
def validate(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool that is called.")],
    file: Annotated[Path, typer.Argument(help="Its arguments, a JSON object; - is the input.")],
    path: PathArgument = None,
    config: ConfigOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Hold arguments to a tool's schema: path, keyword, what was expected and what was there.

    As for every model, null means absent for an optional argument whose schema does not allow null.

    Its business rules are not tried: they need a session and earlier results.

    Ends with 0 when the arguments are valid, 1 when they are not, or are no JSON object, and 2 when
    the catalog has faults, does not have the tool, or the file cannot be read.
    """
    from turnstream.catalog import CatalogError, load_catalog
    from turnstream.catalog.differences import differences
    from turnstream.core.nulls import without_added_nulls

    try:
        tools = load_catalog(_catalog_of(path, config)[0]).catalog.tools
    except CatalogError as error:
        _stop(error)
    if tool not in tools:
        _no_such_tool([tool], tools)
    schema, rules = tools[tool].input_schema, tools[tool].rules
    given = without_added_nulls(_arguments(file), schema=schema)
    found = differences(schema, given.arguments)
    if output is Output.JSON:
        _print_json(
            {
                "tool": tool,
                "valid": not found,
                "dropped": given.dropped,
                "rules_not_tried": len(rules),
                "differences": [asdict(one) for one in found],
            }
        )
    else:
        _print_differences(tool, given, found)
        if rules:
            kinds = ", ".join(rule.kind for rule in rules)
            typer.echo(f"{tool}: its business rules were not tried: {kinds}")
    if found:
        raise typer.Exit(_FOUND)


def _path_and_tools(names: list[str], *, tools_allowed: bool) -> tuple[Path | None, list[str]]:
    """Names of tools have neither dots nor slashes, so what has one is the catalog."""
    if names and (not tools_allowed or {".", "/"} & set(names[0])):
        path, tools = Path(names[0]), names[1:]
    else:
        path, tools = None, names
    if tools and not tools_allowed:
        _stop(
            ValueError("tools are shown with --as; without it there is one argument, the catalog")
        )
    return path, tools


def _no_such_tool(names: Iterable[str], known: Iterable[str]) -> NoReturn:
    unknown = ", ".join(repr(name) for name in names)
    _stop(ValueError(f"no tool {unknown}; the catalog has {', '.join(known)}"))


def _print_tools(
    loaded: "LoadedCatalog", surface: Surface, *, strict: bool, names: list[str], output: Output
) -> None:
    from turnstream.catalog.surfaces import tools_on_surface

    unknown = [name for name in names if name not in loaded.catalog.tools]
    if unknown:
        _no_such_tool(unknown, loaded.catalog.tools)
    shown = tools_on_surface(loaded, surface=surface.value, strict=strict, names=names or None)
    if surface is Surface.PROMPT and output is Output.TEXT:
        typer.echo("\n\n".join(str(text) for text in shown.values()))
    else:
        _print_json(list(shown.values()))


def _arguments(file: Path) -> "dict[str, JsonValue]":
    from turnstream.core.json_arguments import Unparsed, parsed

    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        _stop(ValueError(f"{file}: cannot be read ({error.strerror})"))
    try:
        arguments = parsed(text.decode())
    except UnicodeDecodeError:
        arguments = Unparsed("not UTF-8")
    if isinstance(arguments, Unparsed):
        typer.echo(f"{file}: {arguments.message}", err=True)
        raise typer.Exit(_FOUND)
    return arguments


def _print_differences(tool: str, given: "Given", found: "list[Difference]") -> None:
    for place in given.dropped:
        typer.echo(f"{place}: null means absent")
    for one in found:
        typer.echo(f"{one.path or '(the whole)'}: {one.keyword}")
        typer.echo(f"  expected  {_json(one.expected)}")
        typer.echo(f"  found     {_json(one.found)}")
    count = len(found)
    typer.echo(f"{tool}: " + (f"{count} difference{'s' * (count > 1)}" if found else "valid"))


def _json(value: object) -> str:
    import orjson

    text = orjson.dumps(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _catalog_of(
    path: Path | None, config: Path | None
) -> tuple[Path, frozenset[str] | None, frozenset[str], float | None]:
    """The catalog that is meant, and the configured deciders where there is a configuration.

    Also those of them that give no confidence, and how long a stop waits for a write.
    """
    from turnstream.config import ConfigurationError, load_settings
    from turnstream.config.connectors import unscored_in

    if path is not None and config is None:
        # The configuration that happens to be here may be of another catalog.
        return path, None, frozenset(), None
    if config is None and _CONFIG.exists():
        config = _CONFIG
    try:
        settings = load_settings(config)
    except ConfigurationError as error:
        _stop(error)
    where, unscored = path or settings.catalog, unscored_in(settings.deciders)
    if config is None:
        return where, None, unscored, None
    return where, frozenset(settings.deciders), unscored, settings.stream.grace_seconds


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
