"""Many dead letters: listed, replayed, discarded."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

import orjson

from turnstream.cli.letter_filters import now_ms
from turnstream.cli.letter_views import letter_as_json, letters_table, printable, shown_time
from turnstream.stream.audit import name_of
from turnstream.stream.letter_box import LetterBox
from turnstream.stream.letter_desk import Done, LetterDesk
from turnstream.stream.letters import Letter, Recipient, Selection, in_order, overtaken

if TYPE_CHECKING:
    from rich.console import Console

    from turnstream.config import Settings

_FOUND: Final = 1

_PREVIEW: Final = 20
"""Letters that are named before a question is asked, and where some were left as they are."""


async def list_letters(
    settings: "Settings",
    wanted: Selection,
    *,
    handled: bool,
    limit: int,
    as_json: bool,
    output: "Console",
    errors: "Console",
) -> None:
    """Write the letters that are wanted, oldest first; of too many the newest.

    Raises:
        LettersUnavailable: They cannot be read.
    """
    async with LetterBox(settings) as box:
        letters = await _read(box, errors, keep=wanted.takes)
        done = await box.done_with(letters)
    if not handled:
        letters = [one for one in letters if name_of(one) not in done]
    letters.sort(key=lambda one: (one.at, one.place))
    shown = letters[-limit:]
    if as_json:
        rows = [letter_as_json(one, done.get(name_of(one))) for one in shown]
        output.print(orjson.dumps(rows).decode(), markup=False, soft_wrap=True)
    elif shown:
        output.print(letters_table(shown, done))
    if not letters:
        errors.print("no letters")
    elif len(shown) < len(letters):
        errors.print(f"{len(letters) - len(shown):,} older ones are not shown; see --limit")


class Work:
    """What a person does about letters."""

    def __init__(
        self,
        settings: "Settings",
        *,
        actor: str,
        because: str | None,
        output: "Console",
        errors: "Console",
        confirm: Callable[[str], bool] | None,
        max_replays: int = 1,
        recipient: Recipient | None = None,
    ) -> None:
        """Prepare.

        Args:
            settings: The deployment's.
            actor: Who acts.
            because: Why.
            output: Where results go.
            errors: Where everything else goes.
            confirm: Asks a person; not asked when not given.
            max_replays: Letters whose record was replayed as often stay where they are.
            recipient: For whom letters are replayed that do not say who gave them up.
        """
        self._settings = settings
        self._actor = actor
        self._because = because
        self._output = output
        self._errors = errors
        self._confirm = confirm
        self._max_replays = max_replays
        self._recipient = recipient

    async def replay(self, wanted: Selection, *, dry_run: bool) -> int:
        """Replay the open letters that are wanted; the exit status.

        Raises:
            LetterRefused: The broker refused one; those before it are done.
            LettersUnavailable: They cannot be read.
        """
        return await self._run("replay", wanted, dry_run=dry_run)

    async def discard(self, wanted: Selection, *, dry_run: bool) -> int:
        """Discard the open letters that are wanted; the exit status.

        Raises:
            LetterRefused: The broker refused the audit.
            LettersUnavailable: They cannot be read.
        """
        return await self._run("discard", wanted, dry_run=dry_run)

    async def _run(
        self, what: Literal["replay", "discard"], wanted: Selection, *, dry_run: bool
    ) -> int:
        async with LetterBox(self._settings) as box:
            # Those of other topics are not overtaken by what is named.
            topics = {place.topic for place in wanted.places} or None
            letters = await _read(box, self._errors, keep=lambda _: True, topics=topics)
            done = await box.done_with(letters)
            for one in letters:
                # Only those that are named; of a filter's the many done with are no news.
                if one.place in wanted.places and (before := done.get(name_of(one))) is not None:
                    self._say(
                        f"{one.place}: {before.action} already, by {before.actor} at "
                        f"{shown_time(before.at)}"
                    )
            for place in sorted(wanted.places - {one.place for one in letters}):
                self._say(f"there is no letter {place}: {await box.absence(place)}")
            waiting = [one for one in letters if name_of(one) not in done]
            chosen = in_order(one for one in waiting if wanted.takes(one))
            missing = bool(wanted.places - {one.place for one in letters})
            if not chosen:
                self._say(f"nothing to {what}")
                return _FOUND if missing else 0
            desk = LetterDesk(
                self._settings,
                box,
                actor=self._actor,
                because=self._because,
                now_ms=now_ms,
                max_replays=self._max_replays,
                recipient=self._recipient,
            )
            self._preview(what, chosen, waiting, desk)
            if dry_run:
                self._output.print(f"{len(chosen):,} to {what}; nothing was done")
                return _FOUND if missing else 0
            if self._confirm is not None and not self._confirm(f"{what} {len(chosen):,} letters?"):
                self._say("nothing was done")
                return _FOUND
            async with desk:
                with _progress(self._errors, what=what, total=len(chosen)) as advance:
                    act = desk.replay if what == "replay" else desk.discard
                    result = await act(chosen, progress=advance)
        self._report(what, result)
        return _FOUND if result.left or missing else 0

    def _preview(
        self,
        what: Literal["replay", "discard"],
        chosen: Sequence[Letter],
        waiting: Sequence[Letter],
        desk: LetterDesk,
    ) -> None:
        self._errors.print(letters_table(chosen[:_PREVIEW], {}))
        if len(chosen) > _PREVIEW:
            self._say(f"and {len(chosen) - _PREVIEW:,} more")
        if what == "discard":
            return
        obstacles = [(one, why) for one in chosen if (why := desk.obstacle(one)) is not None]
        self._name("cannot be replayed", obstacles)
        if behind := overtaken(chosen, waiting):
            self._say(
                f"{len(behind):,} earlier letters of these conversations are not chosen; what is "
                f"replayed overtakes them, {behind[0].place} for one"
            )

    def _report(self, what: Literal["replay", "discard"], result: Done) -> None:
        for letter, before in result.already[:_PREVIEW]:
            self._say(f"{letter.place}: {before.action} meanwhile, by {before.actor}")
        self._name("left as it is", result.left)
        parts = [f"{len(result.done):,} {what}ed"]
        if result.already:
            parts.append(f"{len(result.already):,} done with already")
        if result.left:
            parts.append(f"{len(result.left):,} left as they are")
        self._output.print(", ".join(parts))

    def _name(self, what: str, letters: Sequence[tuple[Letter, str]]) -> None:
        for letter, why in letters[:_PREVIEW]:
            self._say(f"{letter.place}: {what}: {why}")
        if len(letters) > _PREVIEW:
            self._say(f"and {len(letters) - _PREVIEW:,} more, not named")

    def _say(self, text: str) -> None:
        self._errors.print(printable(text), markup=False, soft_wrap=True)


async def _read(
    box: LetterBox,
    errors: "Console",
    *,
    keep: Callable[[Letter], bool],
    topics: Collection[str] | None = None,
) -> list[Letter]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(
        TextColumn("reading letters"),
        BarColumn(),
        MofNCompleteColumn(),
        console=errors,
        disable=not errors.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("read", total=None)
        return await box.letters(
            keep=keep,
            topics=topics,
            progress=lambda passed, total: bar.update(task, completed=passed, total=total),
        )


@contextmanager
def _progress(errors: "Console", *, what: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        disable=not errors.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
