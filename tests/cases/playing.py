"""Plays messages of customers through the pure conversation machine, with the demo's catalog.

There is no broker, no clock and no network: what a tool says is given by the case, and the texts of
approved answers are composed on the spot and come back as the answer role would send them.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import orjson
import yaml
from pydantic import JsonValue

from turnstream.catalog import argument_checks, load_catalog
from turnstream.core.conversation import Conversation
from turnstream.core.effects import Happening, Input, Propose, Publish
from turnstream.core.events import (
    Answer,
    ConversationTurn,
    SelectedRecord,
    SessionClaims,
    Source,
    ToolError,
    ToolOutcome,
    ToolResult,
    Versions,
)
from turnstream.core.ports import Proposal
from turnstream.core.publications import ActionEvent
from turnstream.core.rendering import render
from turnstream.core.ruleset import Ruleset
from turnstream.core.step import step
from turnstream.models.catalog_rules import CatalogRules

CASES = Path(__file__).parent

NOW = 1_796_000_000_000
"""The time of every input, milliseconds UTC; nothing depends on which."""

WRITER = ("orders:write",)
"""What a signed-in customer may do unless a case says otherwise."""

_CONVERSATION = "conversation-1"


def cases(name: str) -> list[dict[str, JsonValue]]:
    """The cases of a file in this folder."""
    loaded: list[dict[str, JsonValue]] = yaml.safe_load((CASES / name).read_text(encoding="utf-8"))
    return loaded


@cache
def shop() -> tuple[Ruleset, CatalogRules]:
    """The demo's catalog, compiled, and its decider."""
    with as_file(files("turnstream.demo") / "catalog.yaml") as path:
        loaded = load_catalog(path)
    ruleset = Ruleset(
        catalog=loaded.catalog,
        decision_version=loaded.decision_version,
        presentation_version=loaded.presentation_version,
        checks=argument_checks(loaded.catalog),
    )
    return ruleset, CatalogRules(loaded.catalog, loaded.decision_version)


def seen(action: ActionEvent) -> dict[str, JsonValue]:
    """What a case may expect of an action."""
    decision = action.decision
    found: dict[str, JsonValue] = {"action": decision.action}
    if action.call is not None:
        found |= {"tool": action.call.tool, "arguments": orjson.loads(action.call.arguments_json)}
    if action.question is not None:
        found |= {
            "missing_field": action.question.field,
            "needed_for": action.question.needed_for,
        }
    if action.answer is not None:
        found |= {"answer": action.answer.answer_id, "values": dict(action.answer.values)}
    if action.refusal is not None:
        found["rule"] = action.refusal.rule
    if action.handoff is not None:
        found |= {"cause": action.handoff.cause, "queue": action.handoff.queue}
    return found


def compared(
    expected: Sequence[Mapping[str, JsonValue]], actions: Sequence[ActionEvent]
) -> list[dict[str, JsonValue]]:
    """The actions, each reduced to the keys that the expected one at its place names.

    Values of an answer are reduced the same way. An action that is not the expected kind stays
    whole, so that a failing test shows what it was.
    """
    reduced: list[dict[str, JsonValue]] = []
    for place, action in enumerate(actions):
        found = seen(action)
        if place < len(expected) and expected[place]["action"] == found["action"]:
            wanted = expected[place]
            found = {key: found.get(key) for key in wanted}
            values, all_values = wanted.get("values"), found.get("values")
            if isinstance(values, dict) and isinstance(all_values, dict):
                found["values"] = {key: all_values.get(key) for key in values}
        reduced.append(found)
    return reduced


class Player:
    """One conversation, from its first turn on."""

    def __init__(
        self,
        *,
        locale: str,
        channel: str = "web",
        permissions: Sequence[str] = WRITER,
    ) -> None:
        self._ruleset, self._decider = shop()
        self._locale, self._channel = locale, channel
        self._claims = SessionClaims(subject_id="customer-17", permissions=tuple(permissions))
        self._state: Conversation | None = None
        self._offset = 0
        self._turns = 0

    def customer(
        self, text: str, *, record: Mapping[str, str] | None = None, reply: bool = False
    ) -> list[ActionEvent]:
        """The customer writes. Gives every action that follows."""
        self._turns += 1
        question = self._state.open_question if reply and self._state is not None else None
        turn = ConversationTurn(
            turn_id=f"turn-{self._turns}",
            conversation_id=_CONVERSATION,
            channel_id=self._channel,
            role="customer",
            text=text,
            locale=self._locale,
            session_claims=self._claims,
            selected_record=SelectedRecord(kind="order", values=dict(record)) if record else None,
            reply_to_question_id=question.question_id if question is not None else None,
            occurred_at=NOW,
        )
        return self._told("conversation.turns", turn)

    def result(self, result: Mapping[str, JsonValue]) -> list[ActionEvent]:
        """The oldest call that is out has this result."""
        return self._returned("done", result=result, error=None, final=True)

    def error(self, code: str, *, outcome: ToolOutcome, final: bool) -> list[ActionEvent]:
        """The oldest call that is out ends in an error, or an attempt of it does."""
        return self._returned(outcome, result=None, error=code, final=final)

    def _returned(
        self,
        outcome: ToolOutcome,
        *,
        result: Mapping[str, JsonValue] | None,
        error: str | None,
        final: bool,
    ) -> list[ActionEvent]:
        outstanding = self._state.outstanding if self._state is not None else ()
        call = next((one for one in outstanding if one.kind == "call"), None)
        assert call is not None, "the case gives a result, and no call is out"
        returned = ToolResult(
            action_id=call.action_id,
            conversation_id=_CONVERSATION,
            tool_call_id=call.action_id,
            name=call.name,
            ok=error is None,
            final=final,
            result_json=orjson.dumps(result).decode() if result is not None else None,
            error=ToolError(code=error, message="", retryable=not final) if error else None,
            outcome=outcome,
            attempts=1,
            versions=Versions(decision_version="d1", presentation_version="p1", model="m"),
            arguments_hash="0" * 64,
            occurred_at=NOW,
        )
        return self._told("tool.results", returned)

    def _told(self, topic: str, event: ConversationTurn | ToolResult | Answer) -> list[ActionEvent]:
        """Take one event to rest, then its answer's text, until nothing follows."""
        self._offset += 1
        source = Source(topic=topic, partition=0, offset=self._offset)
        happening: Happening = event
        for _ in range(8):
            taken = step(
                self._state,
                Input(
                    conversation_id=_CONVERSATION,
                    event=happening,
                    source=source,
                    topic=topic,
                    offset=self._offset,
                    timestamp=NOW,
                    now=NOW,
                ),
                self._ruleset,
            )
            self._state = taken.state
            wanted = [one for one in taken.effects if isinstance(one, Propose)]
            if not wanted:
                break
            proposal = self._decider.propose(wanted[0].request)
            assert isinstance(proposal, Proposal), "this decider works without I/O"
            happening = proposal
        else:
            raise AssertionError("one input took more than eight proposals")
        actions = [
            one.event
            for one in taken.effects
            if isinstance(one, Publish) and isinstance(one.event, ActionEvent)
        ]
        following = [self._composed(one) for one in actions if one.answer is not None]
        for answer in following:
            actions += self._told("answers", answer)
        return actions

    def _composed(self, action: ActionEvent) -> Answer:
        """The answer's text, as the answer role composes it."""
        payload = action.answer
        assert payload is not None
        text = payload.text
        if payload.answer_id is not None:
            catalog = self._ruleset.catalog
            _, text = render(
                catalog.answers[payload.answer_id],
                locale=payload.locale,
                values=payload.values,
                default_locale=catalog.default_locale,
            )
        return Answer(
            action_id=action.action_id,
            conversation_id=_CONVERSATION,
            turn_id=action.turn_id,
            text=text,
            model="test",
            occurred_at=NOW,
        )
