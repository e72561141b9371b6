"""``turnstream dlq``: dead letters listed, shown, replayed, discarded - each action on record.

Exit status: 0 fine (nothing to do is), 1 findings (a letter is not there, some were left as they
are, or it was not confirmed), 2 could not run or was refused midway, 130 interrupted.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from turnstream.cli.interrupts import INTERRUPTED, ending_at_once

if TYPE_CHECKING:
    from rich.console import Console

    from turnstream.config import Settings
    from turnstream.stream.letters import Selection

app = typer.Typer(no_args_is_help=True, help="List, show, replay and discard dead letters.")

_FOUND: Final = 1
_COULD_NOT_RUN: Final = 2

_MAX_REPLAYS: Final = 5
"""A record that fails again and again would else be replayed for ever by a script."""

_ROWS: Final = 200
"""Letters that are listed by default: a terminal has no use for more."""

_WIDE: Final = 200
"""Columns where nobody's terminal says how many: names must not be cut for a pipe."""

ConfigOption = Annotated[Path | None, typer.Option("--config", "-c", help="Configuration file.")]
TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", help="Only of this source topic; may be repeated."),
]
ReasonOption = Annotated[
    list[str] | None,
    typer.Option("--reason", help="Only given up for this reason; may be repeated."),
]
ConversationOption = Annotated[
    str | None, typer.Option("--conversation", help="Only of this conversation (the key).")
]
SinceOption = Annotated[
    str | None,
    typer.Option("--since", help="Only given up at or after: 2026-01-31T12:00, or 2h ago as 2h."),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="Only given up before; as --since.")
]
LettersArgument = Annotated[
    list[str] | None, typer.Argument(help="Letters by name, topic/partition/offset.")
]
AllOption = Annotated[
    bool, typer.Option("--all", help="Every open letter; needed when no filter is given.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ActorOption = Annotated[
    str | None, typer.Option("--actor", help="Who acts, for the audit; by default the OS user.")
]
BecauseOption = Annotated[
    str | None, typer.Option("--because", help="Why, for the audit; no customer's words.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON.")]


@app.command("list")
def list_command(  # noqa: PLR0917 - typer calls it by name
    config: ConfigOption = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    handled: bool = typer.Option(False, "--handled", help="Also those replayed or discarded."),
    limit: int = typer.Option(_ROWS, "--limit", min=1, help="The newest so many."),
    as_json: JsonOption = False,
) -> None:
    """List the open dead letters, oldest first.

    Ends with 0, or with 2 when they cannot be read.
    """
    with _command("list", config) as (settings, errors):
        from turnstream.cli.letter_filters import now_ms, selection
        from turnstream.cli.letter_work import list_letters

        wanted = selection(
            settings,
            topics=topic or (),
            reasons=reason or (),
            conversation=conversation,
            since=since,
            until=until,
            now=now_ms(),
        )
        asyncio.run(
            list_letters(
                settings,
                wanted,
                handled=handled,
                limit=limit,
                as_json=as_json,
                output=_output(),
                errors=errors,
            )
        )


@app.command("show")
def show_command(  # noqa: PLR0917 - typer calls it by name
    letter: Annotated[str, typer.Argument(help="A letter's name, topic/partition/offset.")],
    config: ConfigOption = None,
    reveal: bool = typer.Option(
        False, "--reveal", help="Also what was written and said; the audit notes who asked."
    ),
    actor: ActorOption = None,
    because: BecauseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a letter: its headers, and the event when it can be decoded.

    In place of texts, values and foreign headers stand their length and a hash, unless --reveal is
    given. Ends with 0, with 1 when there is no such letter, with 2 when it cannot be read.
    """
    with _command("show", config) as (settings, errors):
        from turnstream.cli.letter_filters import place_of
        from turnstream.cli.letter_sheet import show

        place = place_of(letter)
        there = asyncio.run(
            show(
                settings,
                place,
                reveal=reveal,
                actor=_actor("show", actor) if reveal else "",
                because=_because("show", because),
                as_json=as_json,
                output=_output(),
                errors=errors,
            )
        )
        if not there:
            raise typer.Exit(_FOUND)


@app.command("replay")
def replay_command(  # noqa: PLR0917 - typer calls it by name
    letters: LettersArgument = None,
    config: ConfigOption = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    actor: ActorOption = None,
    because: BecauseOption = None,
    max_replays: int = typer.Option(
        _MAX_REPLAYS, "--max-replays", min=1, help="Leave records that were replayed as often."
    ),
    recipient: str | None = typer.Option(
        None,
        "--for",
        metavar="ROLE",
        help="For letters that do not say who gave them up: the one role, or all.",
    ),
) -> None:
    """Publish records once more where they came from, after what failed has been mended.

    Bytes, key and order are kept, and ids, since the headers name the first place of the record.
    The role that gave it up handles it, the others pass it over; what no role could read is for
    all. A letter is replayed once; a record that fails again becomes another letter. Ends with 0,
    with 1 when some were left as they are, with 2 when it was refused.
    """
    with _command("replay", config) as (settings, errors):
        from turnstream.cli.letter_filters import recipient_of
        from turnstream.cli.letter_work import Work

        wanted = _wanted(
            "replay",
            settings,
            letters=letters,
            topics=topic,
            reasons=reason,
            conversation=conversation,
            since=since,
            until=until,
            everything=everything,
        )
        work = Work(
            settings,
            actor=_actor("replay", actor),
            because=_because("replay", because),
            output=_output(),
            errors=errors,
            confirm=None if yes else _confirm("replay"),
            max_replays=max_replays,
            recipient=None if recipient is None else recipient_of(recipient),
        )
        raise typer.Exit(asyncio.run(work.replay(wanted, dry_run=dry_run)))


@app.command("discard")
def discard_command(  # noqa: PLR0917 - typer calls it by name
    letters: LettersArgument = None,
    config: ConfigOption = None,
    topic: TopicOption = None,
    reason: ReasonOption = None,
    conversation: ConversationOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    actor: ActorOption = None,
    because: BecauseOption = None,
) -> None:
    """Be done with letters without replaying them; --because is required.

    They are not offered again, and stay in their topic until its retention ends. Ends with 0, with
    1 when it was not confirmed, with 2 when it was refused.
    """
    with _command("discard", config) as (settings, errors):
        from turnstream.cli.letter_work import Work

        wanted = _wanted(
            "discard",
            settings,
            letters=letters,
            topics=topic,
            reasons=reason,
            conversation=conversation,
            since=since,
            until=until,
            everything=everything,
        )
        work = Work(
            settings,
            actor=_actor("discard", actor),
            because=_because("discard", because, required=not dry_run),
            output=_output(),
            errors=errors,
            confirm=None if yes else _confirm("discard"),
        )
        raise typer.Exit(asyncio.run(work.discard(wanted, dry_run=dry_run)))


def _wanted(
    name: str,
    settings: "Settings",
    *,
    letters: list[str] | None,
    topics: list[str] | None,
    reasons: list[str] | None,
    conversation: str | None,
    since: str | None,
    until: str | None,
    everything: bool,
) -> "Selection":
    """The letters that a command is to act on; all of them only when that is said."""
    from turnstream.cli.letter_filters import now_ms, selection

    wanted = selection(
        settings,
        letters=letters or (),
        topics=topics or (),
        reasons=reasons or (),
        conversation=conversation,
        since=since,
        until=until,
        now=now_ms(),
    )
    if wanted.everything and not everything:
        _stop(name, "name letters, give a filter, or --all for every open letter")
    return wanted


@contextmanager
def _command(name: str, config: Path | None) -> Iterator[tuple["Settings", "Console"]]:
    """What every command needs, and how it ends when it cannot go on."""
    with ending_at_once():
        from rich.console import Console

        from turnstream.cli.run import default_config
        from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
        from turnstream.core.errors import TurnstreamError
        from turnstream.resources import MissingContracts

    # The Kafka client's notices would break the progress bar, and when another command has taken
    # over, which is said, it leaves futures behind that nobody can look at.
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    errors = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else _WIDE)
    try:
        yield load_settings(config or default_config()), errors
    except (
        ConfigurationError,
        MissingContracts,
        OSError,
        SecretUnavailable,
        TurnstreamError,
    ) as error:
        _stop(name, str(error))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _output() -> "Console":
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


def _actor(name: str, given: str | None) -> str:
    """Who acts."""
    import getpass

    from turnstream.stream.audit import LONGEST_NOTE

    try:
        actor = (given or getpass.getuser()).strip()
    except (OSError, KeyError):  # no name for the user's number, as in a container
        actor = ""
    if not actor:
        _stop(name, "the OS user has no name: say with --actor who acts, for the audit")
    return actor[:LONGEST_NOTE]


def _because(name: str, given: str | None, *, required: bool = False) -> str | None:
    """Why."""
    from turnstream.stream.audit import LONGEST_NOTE

    because = (given or "").strip()
    if required and not because:
        _stop(name, "--because is missing: the audit says why it was done")
    if len(because) > LONGEST_NOTE:
        _stop(name, f"--because has {len(because):,} characters; at most {LONGEST_NOTE}")
    return because or None


def _confirm(name: str) -> Callable[[str], bool]:
    """Ask a person."""

    def ask(question: str) -> bool:
        if not sys.stdin.isatty():
            _stop(name, "nobody is there to confirm: say --yes")
        return typer.confirm(question, err=True)

    return ask


def _stop(name: str, why: str) -> NoReturn:
    typer.echo(f"turnstream dlq {name}: {why}", err=True)
    raise typer.Exit(_COULD_NOT_RUN)
