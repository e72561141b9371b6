"""The dialogues as events: each user turn, and what the human agent did next.

Usage: python -m benchmarks.star.convert [--star DIR] [--turns FILE] [--live-actions FILE]

Writes JSON lines, one event a line; `turnstream turns send` takes the turns.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import JsonValue

from benchmarks.star.dataset import DataMissing, apis, dialogues, star_folder
from benchmarks.star.texts import ASKED, ITEMS
from turnstream.core.events import ConversationTurn, LiveAction

ACTOR = "star-wizard"
CHANNEL = "star"


class Moment(NamedTuple):
    """A user turn with what the human agent did next, at its place in the dialogue."""

    at: int
    """Milliseconds since the dialogue's first event."""
    turn: ConversationTurn
    live: LiveAction
    acted_at: int
    """Milliseconds since the dialogue's first event; that of the turn where nobody acted."""


def moments(folder: Path, *, epoch_ms: int) -> Iterator[Moment]:
    """Convert every dialogue, in the order of the file.

    Args:
        folder: The data set.
        epoch_ms: What the first event of each dialogue is dated to.
    """
    texts = {
        (api, one["Name"])
        for api, given in apis(folder).items()
        for one in given["input"]
        if one["Type"] in ("ShortString", "LongString")
    }
    for dialogue in dialogues(folder):
        yield from _moments(dialogue, epoch_ms, texts)


def _moments(
    dialogue: dict[str, Any], epoch_ms: int, texts: set[tuple[str, str]]
) -> Iterator[Moment]:
    conversation = f"star-{dialogue['dialogue_id']}"
    events = dialogue["events"]
    began = next(event["UnixTime"] for event in events if "UnixTime" in event)
    at = 0
    for index, event in enumerate(events):
        # A few clocks of the recording went back; order within a dialogue is that of the file.
        at = max(at, (event.get("UnixTime", began) - began) * 1000)
        if event["Agent"] != "User":
            continue
        turn_id = f"{conversation}-{index}"
        turn = ConversationTurn(
            turn_id=turn_id,
            conversation_id=conversation,
            channel_id=CHANNEL,
            role="customer",
            text=event.get("Text", ""),
            locale="en",
            occurred_at=epoch_ms + at,
        )
        following = events[index + 1] if index + 1 < len(events) else {}
        acted_at = max(at, (following.get("UnixTime", began) - began) * 1000)
        live = LiveAction(
            live_action_id=f"{turn_id}-live",
            conversation_id=conversation,
            turn_id=turn_id,
            actor=ACTOR,
            occurred_at=epoch_ms + acted_at,
            **_human(following, texts),
        )
        yield Moment(at, turn, live, acted_at)


def _human(event: dict[str, Any], texts: set[tuple[str, str]]) -> dict[str, Any]:
    """Return what the human agent's event is among the closed actions."""
    label = event.get("ActionLabel") or ""
    match event.get("Agent"), event.get("Action"):
        case "Wizard", "query":
            api = event["APIName"]
            arguments: dict[str, Any] = {}
            for constraint in event.get("Constraints") or []:
                for name, written in constraint.items():
                    arguments[name] = _value(str(written), text=(api, name) in texts)
            return {
                "action": "call_tool",
                "tool": api,
                "arguments_json": orjson.dumps(arguments).decode(),
            }
        case "Wizard", "pick_suggestion" if label == "out_of_scope":
            return {"action": "refuse"}
        case "Wizard", "pick_suggestion" if "ask" in label or "verify" in label:
            return {"action": "ask", "missing_field": _asked_for(label)}
        case "Wizard", "pick_suggestion":
            return {"action": "answer"}
        case _:
            return {"action": "unlabelled"}


_EQUAL = re.compile(r"api\.is_equal_to\((.*)\)", re.DOTALL)


def _value(written: str, *, text: bool) -> JsonValue:
    """Return the value of a constraint; another comparison than equality stays as written."""
    equal = _EQUAL.fullmatch(written)
    if equal is not None:
        written = equal.group(1)
    try:
        value: JsonValue = ast.literal_eval(written)
    except (SyntaxError, ValueError):
        return None if written == "null" else written
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return written if text and not isinstance(value, str) else value


def _asked_for(label: str) -> str | None:
    """Return the field of the catalog that a label such as `ride_ask_destination` names."""
    task, _, item = label.partition("ask_")
    item = item or label.rpartition("verify_")[2]
    return ASKED.get(task + item) or ASKED.get(item) or (item if item in ITEMS else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--star", type=Path, help="folder of the data set")
    parser.add_argument(
        "--turns", type=Path, help="file for the turns; standard output if left out"
    )
    parser.add_argument("--live-actions", type=Path, help="file for what the human agents did")
    parser.add_argument("--at", type=int, default=0, help="ms since 1970 of each dialogue's start")
    options = parser.parse_args()
    try:
        folder = star_folder(options.star)
    except DataMissing as error:
        sys.exit(str(error))
    turns, live = [], []
    for moment in moments(folder, epoch_ms=options.at):
        turns.append(moment.turn.model_dump_json())
        live.append(moment.live.model_dump_json())
    if options.turns:
        options.turns.write_text("\n".join(turns) + "\n", encoding="utf-8")
    else:
        print("\n".join(turns))
    if options.live_actions:
        options.live_actions.write_text("\n".join(live) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
