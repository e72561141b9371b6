"""One dead letter, shown whole."""

from typing import TYPE_CHECKING, Any, Final

import orjson

from turnstream.cli.letter_filters import now_ms
from turnstream.cli.letter_views import (
    event_as_json,
    headers_as_json,
    letter_as_json,
    printable,
    shown_time,
    value_as_json,
)
from turnstream.stream import UnknownSchema
from turnstream.stream.audit import name_of
from turnstream.stream.codec import MalformedValue
from turnstream.stream.contracts import EVENTS
from turnstream.stream.deadletter import Place
from turnstream.stream.letter_box import LetterBox
from turnstream.stream.letter_post import note_revealed
from turnstream.stream.letters import Letter
from turnstream.stream.registry import codec_for

if TYPE_CHECKING:
    from rich.console import Console

    from turnstream.config import Settings
    from turnstream.stream.handler import Record


_TIMES: Final = ("at", "timestamp")
"""What people read as a time."""


async def show(
    settings: "Settings",
    place: Place,
    *,
    reveal: bool,
    actor: str,
    because: str | None,
    as_json: bool,
    output: "Console",
    errors: "Console",
) -> bool:
    """Show a letter; false when there is none, and then say why.

    Raises:
        LetterRefused: What a customer wrote is asked for, and the audit cannot be written.
        LettersUnavailable: It cannot be read.
    """
    async with LetterBox(settings) as box:
        record = (await box.records([place])).get(place) if box.holds(place.topic) else None
        if record is None:
            why = f"there is no letter {place}: {await box.absence(place)}"
            errors.print(printable(why), markup=False, soft_wrap=True)
            return False
        letter = Letter.of(record)
        done = (await box.done_with([letter])).get(name_of(letter))
        whole: Record | None = record
        if letter.pointer and letter.source is not None:
            whole = (await box.records([letter.source])).get(letter.source)
            if whole is not None and not letter.names(whole):
                whole = None  # another record in its place: nobody has asked for that one
    if reveal:
        await note_revealed(settings, letter, actor=actor, because=because, at=now_ms())
    sheet: dict[str, Any] = letter_as_json(letter, done, reveal=reveal)
    if whole is None:
        sheet["fault"] = f"the record is not in {letter.source} any more, where it was kept"
    else:
        sheet["headers"] = headers_as_json(whole, reveal=reveal)
        sheet |= await _content(settings, letter, whole, reveal=reveal)
    if as_json:
        output.print(orjson.dumps(sheet).decode(), markup=False, soft_wrap=True)
    else:
        _print(sheet, output)
    return True


async def _content(
    settings: "Settings", letter: Letter, record: "Record", *, reveal: bool
) -> dict[str, Any]:
    """The event, or the value and why it is none."""
    raw = {"value": value_as_json(record.value, reveal=reveal)}
    logical = settings.topics.logical(letter.source.topic) if letter.source is not None else None
    if logical is None or logical not in EVENTS or record.value is None:
        return raw
    codec = codec_for(settings)
    try:
        try:
            event = codec.decode(logical, record.value)
        except UnknownSchema as unknown:
            if not await codec.resolve(unknown.fingerprint):
                return {**raw, "fault": str(unknown)}
            event = codec.decode(logical, record.value)
    except (MalformedValue, UnknownSchema) as error:
        return {**raw, "fault": str(error)}
    return {"event": event_as_json(event, reveal=reveal)}


def _print(sheet: dict[str, Any], output: "Console") -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in sheet.items():
        match value:
            case None | "" | False:
                continue
            case int() if name in _TIMES:
                shown = f"{shown_time(value)} UTC"
            case list():
                lines = [f"{printable(header)}: {_text(text)}" for header, text in value]
                shown = "\n".join(lines)
            case dict():
                pretty = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
                shown = "\n".join(printable(line) for line in pretty.splitlines())
            case _:
                shown = _text(str(value))
        table.add_row(name, escape(shown))
    output.print(table)


def _text(text: str | None) -> str:
    return "(null)" if text is None else printable(text)
