"""``turnstream chat``: a person talks to a deployment."""

import logging
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnstream.cli.interrupts import ending_at_once

if TYPE_CHECKING:
    from rich.console import Console

    from turnstream.config import Settings
    from turnstream.core.events import SessionClaims

_COULD_NOT_RUN = 2


def chat(  # noqa: PLR0917 - typer calls it by name
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", help="Conversation id; a new one by default.")
    ] = None,
    locale: Annotated[
        str | None, typer.Option("--locale", help="Language of the texts, as fr.")
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel", help="Channel id; by default the catalog's first of type console."
        ),
    ] = None,
    claims: Annotated[
        str | None,
        typer.Option(
            "--claims",
            help='What the gateway would have authenticated, as {"subject_id": "C-100", '
            '"permissions": ["orders:write"]}.',
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Start the demo's deployment first, and stop it after.")
    ] = False,
) -> None:
    """Talk to the bot, one line at a time; works with piped input too.

    Ends with 0 when every line had its reply, 1 when one had none or was put aside, 2 when it could
    not be started, 130 when interrupted.
    """
    with ending_at_once():
        import uuid

        from rich.console import Console

        from turnstream.cli.run import default_config
        from turnstream.config import ConfigurationError, load_settings
        from turnstream.demo.show import run_until_interrupted
        from turnstream.demo.talk import Speaker

    # The Kafka client's notices would stand between the lines.
    logging.getLogger().setLevel(logging.WARNING)
    console = Console(highlight=False)
    session = _session(claims)
    try:
        settings = None if demo else load_settings(config or default_config())
    except ConfigurationError as error:
        typer.echo(f"turnstream chat: {error}", err=True)
        raise typer.Exit(_COULD_NOT_RUN) from error
    where = _channel(settings, channel)

    async def talk() -> int:
        from turnstream.demo.stack import running_stack

        name = conversation or f"chat-{uuid.uuid4().hex[:8]}"
        if settings is not None:
            speaker = Speaker(name, where, locale, session)
            return await _talk(settings, speaker, console)

        def report(what: str) -> None:
            console.print(what, style="dim", markup=False, soft_wrap=True)

        async with running_stack(real_kafka=False, report=report) as stack:
            # Without claims the demo's customer has an account, or nothing could be looked up.
            who = session or _demo_customer()
            speaker = Speaker(name, where, locale, who)
            return await stack.while_running(_talk(stack.settings, speaker, console))

    raise typer.Exit(run_until_interrupted(talk(), console))


async def _talk(settings: "Settings", speaker: object, console: "Console") -> int:
    import sys

    from turnstream.demo.talk import HELP, Speaker, Talk, lines_of

    if not isinstance(speaker, Speaker):
        raise TypeError("expected a speaker")
    prompt = "> " if sys.stdin.isatty() else None
    if prompt is not None:
        where = f"conversation {speaker.conversation_id} on channel {speaker.channel}"
        console.print(f"{where}; {HELP}", style="dim", markup=False)
    talk = Talk(settings, speaker, console, echo=prompt is None)
    return 0 if await talk.run(lines_of(sys.stdin.fileno(), prompt=prompt)) else 1


def _session(claims: str | None) -> "SessionClaims | None":
    from pydantic import ValidationError

    from turnstream.core.events import SessionClaims

    if claims is None:
        return None
    try:
        return SessionClaims.model_validate_json(claims)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        message = fault["msg"] if where else 'expected JSON as {"subject_id": "customer-7"}'
        if fault["type"] == "extra_forbidden":
            message = f"unknown key; expected one of {', '.join(SessionClaims.model_fields)}"
        place = f"--claims: {where}" if where else "--claims"
        typer.echo(f"turnstream chat: {place}: {message}", err=True)
        raise typer.Exit(_COULD_NOT_RUN) from error


def _demo_customer() -> "SessionClaims":
    from turnstream.core.events import SessionClaims

    return SessionClaims(subject_id="C-100", permissions=("orders:write",))


def _channel(settings: "Settings | None", named: str | None) -> str:
    """The channel to talk on: the one that is named, else the first at which people sit.

    Args:
        settings: Whose catalog has the channels; None for the demo's.
        named: What the user has chosen.
    """
    from turnstream.catalog import CatalogError, load_catalog

    try:
        if settings is not None:
            channels = load_catalog(settings.catalog).catalog.channels
        else:
            with as_file(files("turnstream.demo") / "catalog.yaml") as path:
                channels = load_catalog(path).catalog.channels
    except CatalogError:
        return named or "console"  # the deciding role's catalog may be elsewhere
    if named is None:
        return next((name for name, one in channels.items() if one.type == "console"), "console")
    if named not in channels:
        known = ", ".join(channels) or "none"
        typer.echo(
            f"turnstream chat: --channel: the catalog has no channel {named!r}; its channels are "
            f"{known}",
            err=True,
        )
        raise typer.Exit(_COULD_NOT_RUN)
    return named
