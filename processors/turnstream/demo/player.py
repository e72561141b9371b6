"""Plays scripts against a running deployment and compares what appears on the topics with them.

Nothing here waits for a time: the next line is spoken when the last one has led to what it must
lead to, the customer can see it, and the deciding role has heard everything said so far.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson

from turnstream.core.events import Answer, ConversationControl, ConversationTurn, ToolResult
from turnstream.core.publications import PAYLOAD_OF, ActionEvent, OutboundMessage, Outcome
from turnstream.demo.script import Expected, Script, Step
from turnstream.demo.traffic import DeadLettered, Overdue, Passed, Traffic
from turnstream.metrics.catalogue import PROPOSED
from turnstream.roles.decide import SOURCES
from turnstream.roles.writing import EventWriter, Written

STEP_SECONDS: Final = 30.0
"""A step takes a second or two, with retries some more; a role that is stuck must show."""

Reached = Callable[[Mapping[tuple[str, int], int]], Awaitable[None]]
"""Waits until the deciding role has committed past: topic and partition to offset."""


@dataclass
class Result:
    """How the play of one script ended."""

    script: Script
    deviations: list[str] = field(default_factory=list)
    """What was expected and did not happen, or happened and was not expected."""


class _Deviation(Exception):
    """What follows is not what the script says."""


class Player:
    """Plays scripts."""

    def __init__(
        self,
        writer: EventWriter,
        traffic: Traffic,
        *,
        reached: Reached,
        step_seconds: float = STEP_SECONDS,
    ) -> None:
        """Prepare.

        Args:
            writer: Speaks.
            traffic: Listens.
            reached: Waits for the deciding role.
            step_seconds: How long what must follow a step may take.
        """
        self._writer = writer
        self._traffic = traffic
        self._reached = reached
        self._step_seconds = step_seconds

    async def play(self, script: Script) -> Result:
        """Play one script to its end, or to its first deviation.

        Raises:
            TrafficError: The topics cannot be read.
            NotReady: The deciding role does not get on.
        """
        result = Result(script)
        expected: list[Expected] = []

        def followed() -> bool | None:
            return self._followed(script, expected) or None

        for number, step in enumerate(script.steps, 1):
            said = await self._writer.send(self._spoken(script, number, step))
            expected += step.then
            try:
                if step.then:
                    await self._traffic.until(
                        followed,
                        seconds=self._step_seconds,
                        what=f"{script.id}, step {number}: {' then '.join(map(str, step.then))}",
                    )
            except (_Deviation, Overdue) as error:
                had = ", ".join(map(_seen, self._steps(script))) or "nothing"
                result.deviations.append(f"step {number}: {error}; so far: {had}")
                return result
            if step.control is not None:
                await self._reached({("conversation.control", said.partition): said.offset + 1})
            elif step.then:
                await self._reached(self._needed(script))
        return result

    def surplus(self, script: Script) -> list[str]:
        """What has followed beyond what a script lists; for when everything has come to rest."""
        expected = list(script.expected())
        try:
            self._followed(script, expected)
        except _Deviation as error:
            return [str(error)]
        return []

    # --- speaking ---------------------------------------------------------------------------------

    def _spoken(self, script: Script, number: int, step: Step) -> Written:
        now = time.time_ns() // 1_000_000
        if step.control is not None:
            return ConversationControl(
                control_id=f"{script.id}-{number}",
                conversation_id=script.id,
                kind=step.control,
                actor="advisor",
                occurred_at=now,
            )
        if step.person is not None:
            return ConversationTurn(
                turn_id=f"{script.id}-{number}",
                conversation_id=script.id,
                channel_id=script.channel,
                role="agent",
                actor_id="advisor",
                text=step.person,
                occurred_at=now,
            )
        return ConversationTurn(
            turn_id=f"{script.id}-{number}",
            conversation_id=script.id,
            channel_id=script.channel,
            role="customer",
            text=step.says or "",
            locale=script.locale,
            session_claims=script.session,
            selected_record=step.record,
            reply_to_question_id=self._named_question(script, step),
            passages=step.passages,
            occurred_at=now,
        )

    def _named_question(self, script: Script, step: Step) -> str | None:
        """The question that a turn names, as a chat window does whose customer picks one."""
        if step.replies_to is None:
            return None
        asked = [
            action.question.question_id
            for action in self._actions(script)
            if action.question is not None
        ]
        return asked[step.replies_to - 1]

    # --- listening --------------------------------------------------------------------------------

    def _events(self, script: Script) -> Sequence[Passed]:
        return self._traffic.of(script.id)

    def _actions(self, script: Script) -> list[ActionEvent]:
        return [one.event for one in self._events(script) if isinstance(one.event, ActionEvent)]

    def _steps(self, script: Script) -> list[ActionEvent | Outcome]:
        return [
            one.event
            for one in self._events(script)
            if isinstance(one.event, ActionEvent | Outcome)
        ]

    def _needed(self, script: Script) -> dict[tuple[str, int], int]:
        """What the deciding role must have committed to have heard this conversation so far."""
        needed: dict[tuple[str, int], int] = {}
        for one in self._events(script):
            if one.topic in SOURCES and not one.dead:
                place = (one.topic, one.partition)
                needed[place] = max(needed.get(place, 0), one.offset + 1)
        return needed

    def _followed(self, script: Script, expected: Sequence[Expected]) -> bool:
        """Whether everything expected so far has followed and can be seen by the customer.

        Raises:
            _Deviation: Something else has followed.
        """
        events = [one.event for one in self._events(script)]
        for event in events:
            if isinstance(event, DeadLettered):
                raise _Deviation(f"a record of {event.source} was put aside: {event.reason}")
        actions = [event for event in events if isinstance(event, ActionEvent)]
        outcomes = [event for event in events if isinstance(event, Outcome)]
        decisions = [one for one in expected if one.action is not None]
        others = [one for one in expected if one.action is None]
        # Two topics: only the order within each is certain.
        for action, one in zip(actions, decisions, strict=False):
            _compare(action, one)
        for outcome, one in zip(outcomes, others, strict=False):
            if outcome.outcome != one.outcome:
                raise _Deviation(f"expected outcome {one.outcome}, got {outcome.outcome}")
        if len(actions) > len(decisions):
            raise _Deviation(f"unexpected: {_seen(actions[len(decisions)])}")
        if len(outcomes) > len(others):
            raise _Deviation(f"unexpected: {_seen(outcomes[len(others)])}")
        if len(actions) < len(decisions) or len(outcomes) < len(others):
            return False
        messages = {
            event.message_id: event for event in events if isinstance(event, OutboundMessage)
        }
        answered = {event.action_id for event in events if isinstance(event, Answer)}
        results = {
            event.action_id: event
            for event in events
            if isinstance(event, ToolResult) and event.final
        }
        return all(
            _visible(action, one, messages=messages, answered=answered, results=results)
            for action, one in zip(actions, decisions, strict=True)
        ) and _repeated(messages.values(), outcomes, actions)


def _visible(
    action: ActionEvent,
    expected: Expected,
    *,
    messages: Mapping[str, OutboundMessage],
    answered: set[str],
    results: Mapping[str, ToolResult],
) -> bool:
    """Whether an action has had its effect: a message, or a call's result."""
    if action.call is not None:
        result = results.get(action.action_id)
        if result is not None and expected.result not in (None, result.outcome):
            raise _Deviation(f"expected {action.call.tool} {expected.result}, got {result.outcome}")
        return result is not None
    message = messages.get(action.action_id)
    if message is None or (action.answer is not None and action.action_id not in answered):
        return False
    if expected.text is not None and message.text != expected.text:
        raise _Deviation(f"expected the text {expected.text!r}, got {message.text!r}")
    if expected.contains is not None and expected.contains not in message.text:
        raise _Deviation(f"expected {expected.contains!r} in the text, got {message.text!r}")
    return True


def _repeated(
    messages: object, outcomes: Sequence[Outcome], actions: Sequence[ActionEvent]
) -> bool:
    """Whether every question whose reply was rejected has been repeated to the customer."""
    rejected = sum(one.of == "reply" and one.outcome == "rejected" for one in outcomes)
    ids = {action.action_id for action in actions}
    repeats = sum(message.message_id not in ids for message in messages)  # type: ignore[attr-defined]
    return repeats >= rejected


def _compare(action: ActionEvent, expected: Expected) -> None:
    if action.decision.action != expected.action or _subject(action) != expected.subject:
        raise _Deviation(f"expected {expected}, got {_seen(action)}")
    if expected.arguments is not None and action.call is not None:
        arguments = orjson.loads(action.call.arguments_json)
        if arguments != expected.arguments:
            raise _Deviation(f"expected {expected} with {expected.arguments}, got {arguments}")
    if expected.question_ended is not None:
        ended = action.question_ended.outcome if action.question_ended is not None else None
        if ended != expected.question_ended:
            raise _Deviation(f"expected a question ended {expected.question_ended}, got {ended}")


def _subject(action: ActionEvent) -> str:
    """What an action is about, by the same name as in a script."""
    if action.answer is not None:
        return action.answer.answer_id or "text"
    if action.call is not None:
        return action.call.tool
    if action.question is not None:
        return action.question.field
    if action.refusal is not None:
        return action.refusal.rule
    if action.handoff is not None:
        return action.handoff.cause or PROPOSED
    raise AssertionError(f"one of {', '.join(PAYLOAD_OF.values())} is always there")


def _seen(event: ActionEvent | Outcome) -> str:
    if isinstance(event, Outcome):
        return f"outcome {event.outcome}"
    return f"{event.decision.action} {_subject(event)}"


async def play_all(
    player: Player,
    scripts: Sequence[Script],
    *,
    at_once: int,
    ended: Callable[[Result], Awaitable[None]],
) -> list[Result]:
    """Play scripts in their order, some of them beside each other.

    Args:
        player: Plays them.
        scripts: Which.
        at_once: How many beside each other.
        ended: Awaited when a script has ended.
    """
    slots = asyncio.Semaphore(at_once)

    async def play(script: Script) -> Result:
        async with slots:
            result = await player.play(script)
            await ended(result)
            return result

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(play(script)) for script in scripts]
    return [task.result() for task in tasks]
