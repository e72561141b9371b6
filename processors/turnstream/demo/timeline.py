"""The live timeline: each event of the topics as one line, conversation by conversation.

Topics are read side by side, so a message may arrive before the decision that caused it. A line
waits for the line of its cause. Conversations that are played beside each other are shown one after
the other: the first that is not over is shown live, the others as soon as it is.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

from turnstream.core.contract import Decision
from turnstream.core.events import (
    Answer,
    ConversationControl,
    ConversationTurn,
    Label,
    Source,
    Timer,
    ToolResult,
)
from turnstream.core.identity import action_id
from turnstream.core.publications import ActionEvent, OutboundMessage, Outcome, ShadowComparison
from turnstream.demo.script import Script
from turnstream.demo.traffic import DeadLettered, Passed
from turnstream.metrics.catalogue import PROPOSED

TOPICS: Final = (
    "conversation.turns",
    "conversation.control",
    "conversation.actions",
    "tool.results",
    "conversation.answers",
    "conversation.outbound",
    "conversation.outcomes",
    "conversation.labels",
    "conversation.timers",
    "shadow.comparisons",
)
"""What is shown, and the dead letters of what is read."""

_RESULT_CHARACTERS: Final = 160
"""A result is shown as far as it fits a line or two; a guide's passages would fill the screen."""

_STYLES: Final = {
    "customer": "bold cyan",
    "person": "bold magenta",
    "decide": "yellow",
    "tool": "blue",
    "bot": "bold green",
    "outcome": "dim yellow",
    "control": "magenta",
    "label": "dim",
    "shadow": "dim",
    "problem": "bold red",
}


class Line(NamedTuple):
    """One line of the timeline."""

    who: str
    text: str


@dataclass
class _Conversation:
    script: Script
    number: int
    over: bool = False
    shown: set[str] = field(default_factory=set)
    """What has had its line: `topic/partition/offset` of records, ids of actions."""
    waiting: list[Passed] = field(default_factory=list)
    """Events whose cause has not been shown, in the order of arrival."""
    lines: list[Line] = field(default_factory=list)
    """Lines that are not printed because an earlier conversation is still shown."""


class Timeline:
    """Prints what passes."""

    def __init__(self, console: Console, scripts: tuple[Script, ...], *, plain: bool) -> None:
        """Prepare.

        Args:
            console: Where to print.
            scripts: The conversations in the order in which they are shown.
            plain: Lines that stand for themselves, without rules or colours.
        """
        self._console = console
        self._plain = plain
        self._total = len(scripts)
        self._conversations = {
            script.id: _Conversation(script, number) for number, script in enumerate(scripts, 1)
        }
        self._order = [script.id for script in scripts]
        self._begun = False

    def take(self, passed: Passed) -> None:
        """Show an event, or keep it until its turn comes."""
        conversation = self._conversations.get(passed.conversation_id)
        if conversation is None:
            return
        conversation.waiting.append(passed)
        self._advance(conversation)
        self._print()

    def over(self, conversation_id: str) -> None:
        """A conversation has been played; what still waits for a cause is shown without."""
        conversation = self._conversations[conversation_id]
        for passed in conversation.waiting:
            conversation.lines += _lines(passed)
        conversation.waiting.clear()
        conversation.over = True
        self._print()

    def problem(self, conversation_id: str, text: str) -> None:
        """Show a deviation."""
        self._conversations[conversation_id].lines.append(Line("problem", text))

    def _advance(self, conversation: _Conversation) -> None:
        """Make lines of everything whose cause has been shown; each may release others."""
        progress = True
        while progress:
            progress = False
            for passed in list(conversation.waiting):
                cause = _cause(passed)
                if cause is None or cause in conversation.shown:
                    conversation.waiting.remove(passed)
                    conversation.shown |= set(_names(passed))
                    conversation.lines += _lines(passed)
                    progress = True

    def _print(self) -> None:
        while self._order:
            conversation = self._conversations[self._order[0]]
            if conversation.lines and not self._begun:
                self._begun = True
                self._heading(conversation)
            for line in conversation.lines:
                self._line(conversation, line)
            conversation.lines.clear()
            if not conversation.over:
                return
            self._order.pop(0)
            self._begun = False

    def _heading(self, conversation: _Conversation) -> None:
        script = conversation.script
        title = f"{conversation.number}/{self._total} {script.title}"
        where = f"{script.id}, {script.locale}, {script.channel}"
        if self._plain:
            self._console.print(Text(f"== {title} ({where})"), soft_wrap=True)
            return
        self._console.print()
        self._console.rule(Text(f"{title}  ({where})", style="bold"), align="left", style="dim")

    def _line(self, conversation: _Conversation, line: Line) -> None:
        text = Text()
        if self._plain:
            text.append(f"{conversation.number:02} ")
        text.append(f"{line.who:>9}  ", style=_STYLES[line.who])
        text.append(line.text, style="dim" if line.who in ("label", "shadow") else "")
        # No wrapping of ours: a decision stays one literal line of JSON.
        self._console.print(text, soft_wrap=True)


# --- what caused what -----------------------------------------------------------------------------


def _place(topic: str, partition: int, offset: int) -> str:
    return f"{topic}/{partition}/{offset}"


def _of(source: Source) -> str:
    return _place(source.topic, source.partition, source.offset)


def _cause(passed: Passed) -> str | None:
    """The name of what must have been shown before."""
    match passed.event:
        case ActionEvent(source=source) | Outcome(source=source):
            return _of(source)
        case ToolResult(action_id=name) | Answer(action_id=name):
            return name
        case OutboundMessage(message_id=name) | ShadowComparison(live_id=name):
            return name
        case Label(exchange_id=turn_id):
            return f"exchange {turn_id}"
        case _:
            return None


def _names(passed: Passed) -> Iterator[str]:
    """The names under which others may wait for an event."""
    yield _place(passed.physical, passed.partition, passed.offset)
    match passed.event:
        case ActionEvent() as action:
            yield action.action_id
            yield f"exchange {action.turn_id}"
        case Outcome() as outcome:
            # A question that is repeated after a rejected reply is a message without an action.
            yield action_id(outcome.conversation_id, outcome.source, 0)


# --- what is shown --------------------------------------------------------------------------------


def _lines(passed: Passed) -> Iterator[Line]:  # noqa: C901, PLR0912 - one case per event
    match passed.event:
        case ConversationTurn() as turn:
            yield Line("customer" if turn.role == "customer" else "person", turn.text)
            if turn.selected_record is not None:
                selected = ", ".join(f"{k}={v}" for k, v in turn.selected_record.values.items())
                yield Line("customer", f"[selected {turn.selected_record.kind}: {selected}]")
            for passage in turn.passages:
                yield Line("customer", f"[document {passage.passage_id}: {passage.text}]")
        case ConversationControl() as control:
            yield Line("control", f"{control.kind} by {control.actor}")
        case ActionEvent() as action:
            yield Line("decide", literal(action.decision) + _details(action))
        case ToolResult() as result:
            yield Line("tool", _result(result))
        case Answer(failure=str() as failure):
            yield Line("problem", f"no answer: {failure}")
        case OutboundMessage() as message:
            yield Line("bot", message.text)
            if message.suggestions:
                yield Line("bot", " | ".join(f"[{one.label}]" for one in message.suggestions))
        case Outcome() as outcome:
            yield Line("outcome", f"{outcome.of} {outcome.outcome}")
        case Label() as label:
            categories = ", ".join(label.categories) or "no category"
            failed = f" ({label.error})" if label.error else ""
            yield Line("label", f"{categories}: {label.title or 'no title'}{failed}")
        case ShadowComparison() as comparison:
            if comparison.verdict == "same":
                yield Line("shadow", "the candidate agrees")
            else:
                yield Line("shadow", f"the candidate: {literal(comparison.proposed)}")
        case Timer() as timer:
            yield Line("control", f"timer {timer.kind}")
        case DeadLettered() as dead:
            yield Line("problem", f"record of {dead.source} put aside: {dead.reason}")


def literal(decision: Decision) -> str:
    """A decision as the contract's JSON, its four keys on one line."""
    return json.dumps(decision.model_dump(), separators=(",", ":"), ensure_ascii=False)


def _details(action: ActionEvent) -> str:
    details: list[str] = []
    if action.call is not None:
        arguments = json.loads(action.call.arguments_json)
        details += [
            f"{name}={value} ({action.call.provenance.get(name, '?')})"
            for name, value in arguments.items()
        ]
    if action.answer is not None:
        details.append(action.answer.answer_id or "model text")
    if action.refusal is not None:
        details.append(f"rule {action.refusal.rule}")
    if action.handoff is not None:
        details.append(f"{action.handoff.cause or PROPOSED}, queue {action.handoff.queue}")
    if action.question_ended is not None:
        details.append(f"question {action.question_ended.outcome}")
    return f"  {'; '.join(details)}" if details else ""


def _result(result: ToolResult) -> str:
    state = result.outcome if result.final else "failed, will be tried again"
    attempts = f", attempt {result.attempts}" if result.attempts > 1 or not result.final else ""
    if result.error is not None:
        body = f"{result.error.code}: {result.error.message}"
    else:
        body = result.result_json or ""
    if len(body) > _RESULT_CHARACTERS:
        body = body[:_RESULT_CHARACTERS] + "…"
    return f"{result.name} {state}{attempts}  {body}".rstrip()
