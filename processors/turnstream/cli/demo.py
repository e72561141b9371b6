"""``turnstream demo``: conversations decided live over Kafka, on this machine."""

import logging
from typing import Annotated

import typer

from turnstream.cli.interrupts import ending_at_once


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Stay up after the play, until Ctrl-C.")
    ] = False,
    kafka: Annotated[
        bool,
        typer.Option(
            "--kafka",
            help="On a real Kafka: the one that KAFKA_BOOTSTRAP_SERVERS names, else one started "
            "here (needs Java and Maven).",
        ),
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Plain lines; the default when not on a terminal.")
    ] = False,
) -> None:
    """Start a whole deployment, play conversations through it, show them live, stop everything.

    Ends with 0 when every conversation went as its script says, 1 when one did not or a process
    failed, 2 when it could not be started, 130 when interrupted. While it stays up, Ctrl-C is no
    interruption.
    """
    with ending_at_once():
        from rich.console import Console

        from turnstream.demo.show import DemoOptions, show

    # The Kafka client's notices would stand between the lines; the roles log to files of their own.
    logging.getLogger().setLevel(logging.WARNING)
    console = Console(highlight=False)
    plain = plain or not console.is_terminal
    if plain:
        console = Console(highlight=False, color_system=None, force_terminal=False, width=100)
    raise typer.Exit(show(DemoOptions(keep=keep, real_kafka=kafka, plain=plain), console))
