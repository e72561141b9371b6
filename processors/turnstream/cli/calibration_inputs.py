"""What `turnstream calibrate` reads: labelled conversations, and costs."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
from pydantic import ValidationError

from turnstream.calibration import Costs, Labelled, labelled
from turnstream.cli.turn_lines import BadLine, LineReader, LineSplitter
from turnstream.config.yaml_lines import YamlUnreadable, read_yaml
from turnstream.core.errors import TurnstreamError
from turnstream.core.events import ConversationTurn, LiveAction

_CHUNK_BYTES: Final = 1024 * 1024

_FAULTS: Final = 5
"""Lines named: a file of another kind breaks every one of them."""


class InputUnusable(TurnstreamError):
    """What was given cannot be used; the message names file and lines."""


def read_labelled(path: Path, *, channel: str | None, no_channel: str) -> Labelled:
    """Read a file of turns and of what was done after them.

    A line with the key `action` is a LiveAction, any other a ConversationTurn, each as `turnstream
    turns send` takes it. What has no time is in the order of the lines.

    Args:
        path: the file.
        channel: of turns that name none.
        no_channel: why there is no `channel`, for the error of such a turn.

    Raises:
        InputUnusable: a line is neither, or no turn has a label.
        OSError: the file cannot be read.
    """
    now = time.time_ns() // 1_000_000
    readers = {
        event: LineReader(event, channel, no_channel=no_channel, now_ms=lambda: now)
        for event in ("turn", "live-action")
    }
    events: list[ConversationTurn | LiveAction] = []
    faults: list[str] = []
    for number, line in enumerate(_lines(path), start=1):
        if line is not None and not line.strip():
            continue
        try:
            if line is None:
                raise BadLine("too long for any event")
            event = readers[_kind(line)].read(line, number=number)
        except BadLine as error:
            faults.append(f"{path}:{number}: {error}")
            continue
        if isinstance(event, ConversationTurn | LiveAction):
            events.append(event)
    if faults:
        more = [f"and {len(faults) - _FAULTS} lines more"] if len(faults) > _FAULTS else []
        raise InputUnusable("\n".join([*faults[:_FAULTS], *more]))
    found = labelled(events)
    if not any(turn.label for one in found.conversations for turn in one.turns):
        raise InputUnusable(
            f"{path}: no turn has a label: add lines that say what was done, as "
            '{"conversation_id": "c-17", "turn_id": "t-1", "action": "answer", "actor": "ana"}'
        )
    return found


def read_costs(path: Path) -> Costs:
    """Read a cost matrix.

    Args:
        path: a YAML file with the keys of `Costs`.

    Raises:
        InputUnusable: it cannot be read, or has other keys or values.
    """
    try:
        document = read_yaml(path)
        return Costs.model_validate(document.value)
    except YamlUnreadable as error:
        raise InputUnusable(str(error)) from error
    except ValidationError as error:
        faults = document.faults(error, model=Costs)
        raise InputUnusable("\n".join(str(fault) for fault in faults)) from error


def _lines(path: Path) -> Iterator[bytes | None]:
    splitter = LineSplitter()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield from (line.content for line in splitter.feed(chunk))
    yield from (line.content for line in splitter.end())


def _kind(line: bytes) -> str:
    try:
        given = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "turn"  # whose reader says what is wrong
    return "live-action" if isinstance(given, dict) and "action" in given else "turn"
