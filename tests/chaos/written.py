"""Runs that no worker would produce: a few events, without Kafka, for the checker to judge."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import orjson

from tests.chaos import logs, shop
from tests.chaos.checker import check
from tests.chaos.fold import Folder, Handled
from tests.chaos.ledger import Finding, Ledger
from tests.chaos.stage import said
from tests.unit.roles.bench import NOW, record
from turnstream.catalog.schemas import argument_checks
from turnstream.core.definitions import Catalog
from turnstream.core.effects import Input, Propose, Publish
from turnstream.core.events import ConversationControl, Event, ToolResult
from turnstream.core.publications import ActionEvent, OutboundMessage
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.roles.intake import source_of
from turnstream.stream import Record

CATALOG = Catalog.model_validate(shop.CATALOG)
RULESET = Ruleset(
    catalog=CATALOG,
    decision_version="d1",
    presentation_version="p1",
    checks=argument_checks(CATALOG),
)
ROLES = ("decide", "execute", "answer", "classify", "shadow")
TURNS, CONTROL, ACTIONS, ANSWERS, LABELS, OUTBOUND = (
    f"conversation.{name}"
    for name in ("turns", "control", "actions", "answers", "labels", "outbound")
)
RESULTS = "tool.results"
QUESTION = "when do you open?"


def ledger() -> Ledger:
    """A run in which nothing has happened."""
    return Ledger(
        intake=cast("Any", None),
        logical={},
        decode=cast("Any", None),
        changelogs={f"{role}-log": role for role in ROLES},
        with_calls=False,
        shadowed=True,
    )


def findings(run: Ledger, folder: Path, fold: Folder | None = None) -> list[Finding]:
    """What the checker finds."""
    return check(run, folder=folder, catalog=CATALOG, fold=fold or Folder(RULESET), crashes=True)


def found(run: Ledger, folder: Path, fold: Folder | None = None) -> set[str]:
    """The names of the checks that fail, those aside that ask for the rest of a run."""
    names = {one.check for one in findings(run, folder, fold)}
    return names - {"undecided_turn", "state", "no_message"}


class Decided:
    """A turn, decided with one of two replies, and the two replies."""

    def __init__(self, text: str = QUESTION) -> None:
        # The record's time is a constant, so the turn's must be as well.
        self.turn = said("c-1", 1, text).model_copy(update={"occurred_at": NOW})
        self.record = record(self.turn, topic=TURNS)
        cause = input_of(self.record, self.turn)
        outcome = step(None, cause, RULESET)
        (asking,) = outcome.effects
        assert isinstance(asking, Propose)
        self.request = logs.asked(asking.request)
        self.replies = [
            logs.Reply(str(proposal.diagnostics[logs.REPLY]), 1, proposal)
            for proposal in (shop.Other().propose(asking.request) for _ in range(200))
            if proposal.tool != logs.NO_TOOL
        ][:2]
        decided = step(outcome.state, cause.with_event(self.replies[1].proposal), RULESET)
        self.state = decided.state
        self.actions = [
            effect.event
            for effect in decided.effects
            if isinstance(effect, Publish) and isinstance(effect.event, ActionEvent)
        ]
        self.messages = [
            effect.event
            for effect in decided.effects
            if isinstance(effect, Publish) and isinstance(effect.event, OutboundMessage)
        ]

    @property
    def handled(self) -> Handled:
        """The turn and what was published for it."""
        return Handled(self.record, self.turn, self.actions, (), None)

    def fold(self, replies: Sequence[logs.Reply]) -> Folder:
        """A fold that knows some replies."""
        return Folder(RULESET, {self.request: replies})

    def written(self) -> Ledger:
        """A run that has this turn, and what was published for it."""
        run = ledger()
        run.sources[TURNS, 0, 0] = (self.record, self.turn)
        run.actions += [(record(one, topic=ACTIONS), one) for one in self.actions]
        run.messages += [
            (from_role(record(one, topic=OUTBOUND), "decide"), one) for one in self.messages
        ]
        return run


def control(kind: Any) -> ConversationControl:
    """A command about the conversation."""
    return ConversationControl(
        control_id=kind, conversation_id="c-1", kind=kind, actor="desk", occurred_at=0
    )


def input_of(source: Record, event: Event) -> Input:
    """An input of the machine."""
    return Input(
        conversation_id="c-1",
        event=cast("Any", event),
        source=source_of(source),
        topic=source.topic,
        offset=source.offset,
        timestamp=source.timestamp,
        now=source.timestamp,
    )


changed: Callable[..., Record] = replace
"""A record with some of its parts changed."""


def kept(role: str, key: bytes, value: object, *, at: int = NOW) -> Record:
    """A changelog record; None is a tombstone."""
    anything = record(control("close"), topic=f"{role}-log", key=key)
    content = None if value is None else orjson.dumps(value)
    return changed(anything, value=content, timestamp=at)


def from_role(one: Record, role: str) -> Record:
    """A record that names its writer."""
    return changed(one, headers=(("ce_source", f"turnstream/{role}".encode()),))


def result_of(action: ActionEvent) -> ToolResult:
    """The result of a call that was made."""
    call = action.call
    assert call is not None
    return ToolResult(
        action_id=action.action_id,
        conversation_id=action.conversation_id,
        tool_call_id=call.tool_call_id,
        name=call.tool,
        ok=True,
        outcome="done",
        attempts=1,
        versions=action.versions,
        arguments_hash="",
        occurred_at=NOW + 100,
    )
