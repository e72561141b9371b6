"""Recorded conversations: what came in, and everything that the machine made of it.

A recording is a JSON file of this folder. Its inputs are written by hand, its effects and its last
record by ``python -m tests.replay --write``, whose difference is read before it is kept. Keys:

`about`: what the conversation shows. `always`: fields that every event of it has; an effect names
only what differs. `steps`: the inputs in order. `record`: what is stored of the conversation at
the end.

A step has one input - `customer` (a text), `person` (a text), `result` (a body), `failure` (a
code), `answered` (a text), `control` (a kind) or `timer` (a kind) -, and may have: `after_ms`, the
time since the step before; `reply`, true when the turn names the open question; `with`, other
fields of the event; `proposals`, what the decider says each time it is asked. Then follow the
`phase` it ended in and its `effects`.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from tests.catalogs import RULES
from tests.driving import Driver, proposal
from turnstream.core.conversation import Conversation
from turnstream.core.effects import DeadLetter, Effect, Publish
from turnstream.core.events import SessionClaims
from turnstream.core.publications import ActionEvent, OutboundMessage
from turnstream.core.record import dump, load
from turnstream.core.ruleset import Ruleset

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

_WIDTH = 100
"""Characters of a line: what fits stands on one."""

Json = Any
"""The content of a JSON file; what a recording may hold is said above."""


def read(name: str) -> dict[str, Json]:
    """A recording."""
    found: dict[str, Json] = from_json((FOLDER / f"{name}.json").read_bytes())
    return found


def write(name: str, recording: Mapping[str, Json]) -> None:
    """Keep a recording."""
    (FOLDER / f"{name}.json").write_text(written(recording), encoding="utf-8")


def replayed(
    recording: Mapping[str, Json], *, rules: Ruleset = RULES, stored: bool = False
) -> dict[str, Json]:
    """The recording as it comes out now.

    Args:
        recording: gives the inputs; its effects are not looked at.
        rules: the catalog and limits.
        stored: the state goes through its record after every step, as in a restart.
    """
    always = recording["always"]
    talk = Driver(rules)
    steps = []
    for step in recording["steps"]:
        talk.now += step.get("after_ms", 0)
        _take(talk, step)
        if stored:
            talk.state = load(dump(talk.conversation))
        given = {key: step[key] for key in step if key not in ("phase", "effects")}
        effects = [_shown(effect, always) for effect in talk.last]
        steps.append({**given, "phase": talk.phase, "effects": effects})
    return {
        "about": recording["about"],
        "always": always,
        "steps": steps,
        "record": from_json(dump(talk.conversation)),
    }


def record_of(recording: Mapping[str, Json]) -> Conversation:
    """The conversation as the recording has it stored."""
    return load(json.dumps(recording["record"]).encode())


def difference(name: str, recorded: Mapping[str, Json], now: Mapping[str, Json]) -> str:
    """A unified diff; empty where nothing has changed."""
    lines = difflib.unified_diff(
        written(recorded).splitlines(keepends=True),
        written(now).splitlines(keepends=True),
        f"{name}.json as recorded",
        f"{name}.json as replayed",
    )
    return "".join(lines)


def written(recording: Mapping[str, Json]) -> str:
    """The text of a recording: what fits on a line stands on one."""
    return "".join(_lines(recording, "", "")) + "\n"


def _take(talk: Driver, step: Mapping[str, Json]) -> None:
    """Give the step's input to the machine."""
    proposals = [proposal(**one) for one in step.get("proposals", ())]
    changes = dict(step.get("with", {}))
    if "claims" in changes:
        changes["claims"] = SessionClaims.model_validate(changes["claims"])
    if step.get("reply"):
        question = talk.conversation.open_question
        assert question is not None, "the step replies to a question, and none is open"
        changes["reply_to_question_id"] = question.question_id
    match step:
        case {"customer": text}:
            talk.turn(text, *proposals, **changes)
        case {"person": text}:
            talk.turn(text, *proposals, claims=None, role="agent", **changes)
        case {"result": body}:
            talk.result(body, *proposals, **changes)
        case {"failure": code}:
            talk.failure(code, *proposals, **changes)
        case {"answered": text}:
            talk.answered(*proposals, text=text, **changes)
        case {"control": kind}:
            talk.control(kind)
        case {"timer": kind}:
            talk.timer(kind, *proposals)
        case _:
            raise AssertionError(f"a step without an input: {sorted(step)}")


def _shown(effect: Effect, always: Mapping[str, Json]) -> dict[str, Json]:
    """An effect, without what is the same in every event of the conversation."""
    match effect:
        case Publish(event=ActionEvent() as action):
            return {"action": _fields(action, always)}
        case Publish(event=OutboundMessage() as message):
            return {"message": _fields(message, always)}
        case Publish(event=outcome):
            return {"outcome": _fields(outcome, always)}
        case DeadLetter(reason=reason, detail=detail):
            return {"dead_letter": {"reason": reason, "detail": detail}}
    raise AssertionError("a step at rest asks for no proposal")


def _fields(event: BaseModel, always: Mapping[str, Json]) -> dict[str, Json]:
    fields = event.model_dump(mode="json", exclude_defaults=True)
    if "diagnostics_json" in fields:
        # JSON in a string is not for reading.
        fields["diagnostics_json"] = from_json(fields["diagnostics_json"])
    return {key: value for key, value in fields.items() if always.get(key) != value}


def _lines(value: Json, indent: str, lead: str) -> Iterator[str]:
    """The text of a value in lines, the first one after `lead`."""
    flat = json.dumps(value, ensure_ascii=False)
    items: Sequence[tuple[str, Json]]
    if isinstance(value, dict) and value:
        items = [(f"{json.dumps(key, ensure_ascii=False)}: ", one) for key, one in value.items()]
        ends = "{}"
    elif isinstance(value, list) and value:
        items = [("", one) for one in value]
        ends = "[]"
    else:
        yield indent + lead + flat
        return
    if indent and len(indent) + len(lead) + len(flat) < _WIDTH:
        yield indent + lead + flat
        return
    yield f"{indent}{lead}{ends[0]}\n"
    for place, (label, one) in enumerate(items):
        yield from _lines(one, indent + "  ", label)
        yield ",\n" if place < len(items) - 1 else "\n"
    yield indent + ends[1]
