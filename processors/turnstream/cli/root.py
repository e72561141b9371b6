"""All commands together, and their log."""

import logging
import sys

import structlog
import typer

from turnstream import __version__
from turnstream.cli import (
    calibrate,
    catalog,
    chat,
    demo,
    dlq,
    doctor,
    run,
    schemas,
    shadow,
    topics,
    turns,
)
from turnstream.cli.log_repeats import Repeats

app = typer.Typer(
    name="turnstream",
    help="Decides the next safe step of every support conversation on Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(topics.app, name="topics", help="Create and check the topics.")
app.add_typer(schemas.app, name="schemas", help="Check and register the event schemas.")
app.add_typer(catalog.app, name="catalog", help="Check and show the catalog.")
app.add_typer(turns.app, name="turns", help="Send turns from a file.")
app.add_typer(shadow.app, name="shadow", help="Show how a candidate compares with what was done.")
app.add_typer(dlq.app, name="dlq", help="List, show, replay and discard dead letters.")
app.command("run")(run.run)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)
app.command("chat")(chat.chat)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def configure_logging() -> None:
    """Logs go to standard error, one line each: for people on a terminal, else as JSON."""
    interactive = sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if interactive else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            *shared[:1],
            *shared[2:3],
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # They log the URL of every request, and those of tools hold what customers wrote.
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
