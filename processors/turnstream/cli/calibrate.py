"""``turnstream calibrate``: how far a decider's confidence can be believed."""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from turnstream.cli.interrupts import INTERRUPTED, ending_at_once

if TYPE_CHECKING:
    from rich.console import Console

    from turnstream.calibration import Aim, Division, LabelledConversation
    from turnstream.config import AskingSettings, Settings
    from turnstream.roles.labelled_turns import Followed, Follower

    Conversations = Sequence[LabelledConversation]

_FOUND: Final = 1
_COULD_NOT_RUN: Final = 2


def calibrate(  # noqa: PLR0917 - typer calls it by name
    file: Annotated[Path, typer.Argument(help="Labelled conversations as JSON lines, see below.")],
    control: Annotated[
        Path | None,
        typer.Option("--control", help="The control set; FILE is then the tuning set alone."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="Configuration file.")
    ] = None,
    role: Annotated[
        Literal["shadow", "decide"] | None,
        typer.Option(
            "--role",
            help="Whose catalog is used, and how hard a decider is asked; by default shadow where "
            "the configuration has that section, else decide.",
        ),
    ] = None,
    decider: Annotated[
        str | None,
        typer.Option(
            "--decider",
            help="One of `deciders`; by default shadow.decider, or that of the entry agent.",
        ),
    ] = None,
    control_share: Annotated[
        float,
        typer.Option(
            "--control-share",
            min=0.05,
            max=0.95,
            help="Part of the conversations of FILE that is the control set.",
        ),
    ] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="Another one divides otherwise.")] = 0,
    target_precision: Annotated[
        float | None,
        typer.Option(
            "--target-precision",
            min=0.01,
            max=1.0,
            help="Share of what goes on without a person that shall be right; 0.9 by default.",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option("--costs", help="YAML file of costs, in place of a target precision."),
    ] = None,
    bins: Annotated[
        int, typer.Option("--bins", min=2, max=100, help="Bins of the reliability table.")
    ] = 10,
    write: Annotated[Path, typer.Option("--write", help="The file for the configuration.")] = Path(
        "calibration.json"
    ),
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="PNG file for the plot (extra: calibrate)."),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel",
            help="Channel of turns that name none; by default the catalog's first of type api.",
        ),
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=100, help="Conversations asked about at a time.")
    ] = 8,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output")] = "table",
) -> None:
    """Fit a temperature and thresholds to what people did; report on other conversations.

    A line of FILE is a turn or, with a key `action`, what was done after one, both as `turnstream
    turns send` takes them. What has no time is in the order of the lines. Whole conversations are
    the tuning set or the control set. What is fitted is written for `decide.calibrations` or
    `shadow.calibration`. No topic is read or written, and nothing is carried out.

    Ends with 0, or with 1 when something could not be fitted (it says what, and the file holds the
    rest), 2 when nothing could be done, 130 when interrupted.
    """
    with ending_at_once():
        import orjson
        from rich.console import Console

        from turnstream.calibration import calibrate as fit
        from turnstream.calibration import repeated_texts
        from turnstream.cli.calibration_inputs import InputUnusable
        from turnstream.cli.calibration_plot import check_plotting
        from turnstream.cli.calibration_plot import plot as draw
        from turnstream.cli.calibration_sheet import as_json, print_sheet
        from turnstream.cli.run import default_config
        from turnstream.config import ConfigurationError, SecretUnavailable, load_settings
        from turnstream.core.errors import TurnstreamError
        from turnstream.roles.deployment import DeploymentError

    # A client's notices would stand between the tables.
    logging.getLogger().setLevel(logging.WARNING)
    notes = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        _check_paths(writes=(write, plot), reads=(file, control, config, costs))
        aim = _aim(target_precision, costs)
        if plot is not None:
            check_plotting()
        settings = load_settings(config or default_config())
        tuning_set, control_set, division = _sets(
            file, control, settings, share=control_share, seed=seed, channel=channel, notes=notes
        )
        follower = _follower(settings, role=role, decider=decider)
        tuning, controlled = asyncio.run(
            _followed(follower, tuning_set, control_set, at_once=at_once, console=notes)
        )
        for which, followed in (("tuning", tuning), ("control", controlled)):
            if not followed.samples:
                raise InputUnusable(_nothing_in(which, followed))
        calibration, report = fit(
            tuning.samples,
            controlled.samples,
            made_for=follower.made_for,
            division=division,
            catalog=follower.catalog,
            aim=aim,
            bins=bins,
        )
        # The plot first: a run that ends with 2 leaves no file that a role would load.
        if plot is not None:
            draw(report, plot)
        write.write_text(calibration.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(INTERRUPTED) from interrupt
    except (
        ConfigurationError,
        DeploymentError,
        OSError,
        SecretUnavailable,
        TurnstreamError,
    ) as error:
        typer.echo(f"turnstream calibrate: {error}", err=True)
        raise typer.Exit(_COULD_NOT_RUN) from error
    if output == "json":
        typer.echo(orjson.dumps(as_json(calibration, report), option=orjson.OPT_INDENT_2).decode())
    else:
        print_sheet(Console(highlight=False), calibration, report)
    for note in _left_out(tuning, controlled, repeated_texts(tuning_set, control_set)):
        notes.print(note)
    notes.print("written: " + " and ".join(str(path) for path in (write, plot) if path is not None))
    missing = calibration.not_fitted
    for fault in missing:
        notes.print(f"not fitted: {fault}")
    if missing:
        raise typer.Exit(_FOUND)


def _check_paths(*, writes: Sequence[Path | None], reads: Sequence[Path | None]) -> None:
    """Find out before the work whether its results can be written, and over nothing that is read.

    Raises:
        InputUnusable: a file to write is also read or written otherwise, or cannot be.
    """
    from turnstream.cli.calibration_inputs import InputUnusable

    taken = {path.resolve() for path in reads if path is not None}
    for option, path in zip(("--write", "--plot"), writes, strict=True):
        if path is None:
            continue
        if path.resolve() in taken:
            raise InputUnusable(f"{option}: {path} is read or written already: name another file")
        taken.add(path.resolve())
        if path.is_dir():
            raise InputUnusable(f"{option}: {path} is a folder: name a file")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise InputUnusable(
                f"{option}: {path} cannot be written: is its folder there and yours?"
            )


def _left_out(tuning: "Followed", control: "Followed", alike: int) -> list[str]:
    """What the report does not count, and what makes it kinder than it should be."""
    found = [
        f"{name} set: {count:,} customer turns left out: {why}"
        for name, one in (("tuning", tuning), ("control", control))
        for why, count in sorted(one.left_out.items())
    ]
    if alike:
        found.append(f"{alike:,} turns of the control set are worded as one of the tuning set")
    return found


def _nothing_in(which: str, followed: "Followed") -> str:
    """Why a set cannot be used."""
    why = [f"{count:,} {reason}" for reason, count in sorted(followed.left_out.items())]
    return (
        f"the {which} set has no labelled turn with a proposal "
        f"({'; '.join(why) or 'it has no customer turn'}): give more conversations, or divide them "
        "otherwise with --control-share or --seed"
    )


def _sets(
    file: Path,
    control: Path | None,
    settings: "Settings",
    *,
    share: float,
    seed: int,
    channel: str | None,
    notes: "Console",
) -> "tuple[Conversations, Conversations, Division]":
    """The tuning set and the control set."""
    from turnstream.calibration import Division, check_disjoint, split
    from turnstream.cli.calibration_inputs import read_labelled
    from turnstream.cli.turns import api_channel

    no_channel = ""
    if channel is None:
        channel, no_channel = api_channel(settings)

    def read(path: Path) -> "Conversations":
        found = read_labelled(path, channel=channel, no_channel=no_channel)
        if found.unplaced:
            notes.print(
                f"{path}: {found.unplaced:,} actions left out: they follow no customer turn"
            )
        return found.conversations

    if control is None:
        tuning, controlled = split(read(file), control_share=share, seed=seed)
        return tuning, controlled, Division(control_share=share, seed=seed)
    given, held_out = read(file), read(control)
    check_disjoint(
        {one.conversation_id for one in given}, {one.conversation_id for one in held_out}
    )
    return given, held_out, Division()


def _follower(
    settings: "Settings", *, role: Literal["shadow", "decide"] | None, decider: str | None
) -> "Follower":
    """Who proposes, with which catalog."""
    from turnstream.roles.deployment import Deployment
    from turnstream.roles.labelled_turns import Follower

    deployment = Deployment(settings, settings.catalog)
    effort: AskingSettings
    if role is None:
        role = "shadow" if "shadow" in settings.model_fields_set else "decide"
    if role == "shadow":
        candidacy, effort = deployment.candidate(), settings.shadow
        name = decider or settings.shadow.decider
    else:
        candidacy, effort = deployment.main, settings.decide
        catalog = deployment.catalog
        name = decider or catalog.agents[catalog.entry_agent].decider
    return Follower(candidacy, decider=name, effort=effort, metrics=deployment.metrics)


async def _followed(
    follower: "Follower",
    tuning: "Conversations",
    control: "Conversations",
    *,
    at_once: int,
    console: "Console",
) -> "tuple[Followed, Followed]":
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("conversations", total=len(tuning) + len(control))

        def advance() -> None:
            bar.advance(task)

        found = [
            await follower.follow(one, at_once=at_once, progress=advance)
            for one in (tuning, control)
        ]
    return found[0], found[1]


def _aim(target_precision: float | None, costs: Path | None) -> "Aim":
    """What the thresholds are for."""
    from turnstream.calibration import LeastCost, TargetPrecision
    from turnstream.cli.calibration_inputs import InputUnusable, read_costs

    if costs is None:
        return TargetPrecision(precision=0.9 if target_precision is None else target_precision)
    if target_precision is not None:
        raise InputUnusable("--target-precision and --costs exclude each other: name one")
    return LeastCost(costs=read_costs(costs))
