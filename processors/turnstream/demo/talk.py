"""A person talks to a running deployment: lines in, the bot's messages out."""

import asyncio
import os
import threading
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

from turnstream.config import Settings
from turnstream.core.contract import Decision
from turnstream.core.events import ConversationControl, ConversationTurn, SessionClaims
from turnstream.core.publications import ActionEvent, OutboundMessage, Outcome
from turnstream.demo.hints import claims_hint
from turnstream.demo.traffic import DeadLettered, Overdue, Passed, Traffic
from turnstream.roles.writing import EventWriter
from turnstream.stream.partitioner import partitioner

TOPICS: Final = ("conversation.outbound", "conversation.outcomes", "conversation.actions")

REPLY_SECONDS: Final = 60.0
"""Longer than a tool's retries and an answer's deadline: after it, nobody is listening."""

_CHUNK_BYTES: Final = 65_536

_STOPS: Final = frozenset({"handoff_notice", "refusal"})
"""Messages whose action may say what the session lacked."""

_SILENT: Final = {
    "held_by_person": "a person has this conversation; /back gives it back to the bot",
    "rejected": "not taken: it is empty, or no valid reply to the question",
    "duplicate": "the question has been answered already",
    "late": "another question is open",
    "duplicate_turn": "this turn was sent before",
}
"""Outcomes after which no message follows for this turn, and what they mean."""

HELP: Final = "a line is a message; a number picks a suggestion; /back, /close, /quit"


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who talks, and where."""

    conversation_id: str
    channel: str
    locale: str | None = None
    claims: SessionClaims | None = None


class Talk:
    """One conversation at the console."""

    def __init__(
        self,
        settings: Settings,
        speaker: Speaker,
        console: Console,
        *,
        echo: bool = False,
        reply_seconds: float = REPLY_SECONDS,
    ) -> None:
        """Prepare.

        Args:
            settings: The deployment's.
            speaker: Who talks.
            console: Where the messages are printed.
            echo: Print the lines too, for input that is not typed.
            reply_seconds: How long a reply may take.
        """
        self._settings = settings
        self._speaker = speaker
        self._console = console
        self._echo = echo
        self._reply_seconds = reply_seconds
        self._question: OutboundMessage | None = None
        self._settled = 0
        """Events so far after which nobody waits for a reply any more."""
        self._put_aside = 0
        """Turns that became dead letters: nobody will reply to them."""
        self._half: dict[str, ActionEvent | None] = {}
        """By action id: a stop whose message has not come yet, or None where its action has not."""

    async def run(self, lines: AsyncIterator[str]) -> bool:
        """Talk until the lines end; true when every line had its reply and none was put aside.

        Raises:
            WritingError: Nothing can be sent.
            TrafficError: Nothing can be read.
        """
        key = self._speaker.conversation_id.encode()
        partition = partitioner(self._settings.turns.partitioner)(key, self._settings.partitions)
        traffic = Traffic(
            self._settings,
            topics=TOPICS,
            begin="end",
            partitions=(partition,),
            dead_letters=("conversation.turns",),
        )
        async with traffic, EventWriter(self._settings) as writer:
            traffic.listen(self._take)
            async for line in lines:
                said = line.strip()
                if said == "/quit":
                    break
                if not said:
                    continue
                if said.startswith("/"):
                    await self._command(writer, said)
                    continue
                if self._echo:
                    self._print("you", said, "dim")
                before = self._settled
                await writer.send(self._turn(said))
                try:
                    await traffic.until(
                        lambda before=before: self._settled > before or None,  # type: ignore[misc]
                        seconds=self._reply_seconds,
                        what="the reply",
                    )
                except Overdue as error:
                    self._print("!", f"{error}: are the roles running? (turnstream doctor)", "red")
                    return False
        return not self._put_aside

    def _turn(self, said: str) -> ConversationTurn:
        question, named = self._question, None
        if question is not None and said.isdecimal():
            place = int(said) - 1
            if 0 <= place < len(question.suggestions):
                said, named = question.suggestions[place].label, question.question_id
                self._print(">", said, "dim")
        return ConversationTurn(
            turn_id=uuid.uuid4().hex,
            conversation_id=self._speaker.conversation_id,
            channel_id=self._speaker.channel,
            role="customer",
            text=said,
            locale=self._speaker.locale,
            session_claims=self._speaker.claims,
            # What is typed may be about something else: only a pick names its question.
            reply_to_question_id=named,
            occurred_at=_now_ms(),
        )

    async def _command(self, writer: EventWriter, said: str) -> None:
        if said not in ("/back", "/close"):
            self._print("!", HELP, "dim")
            return
        await writer.send(
            ConversationControl(
                control_id=uuid.uuid4().hex,
                conversation_id=self._speaker.conversation_id,
                kind="hand_back" if said == "/back" else "close",
                actor="console",
                occurred_at=_now_ms(),
            )
        )
        self._question = None

    def _take(self, passed: Passed) -> None:
        if passed.conversation_id != self._speaker.conversation_id:
            return
        match passed.event:
            case OutboundMessage() as message:
                self._question = message if message.kind == "question" else None
                self._print("bot", message.text, "bold green")
                for number, suggestion in enumerate(message.suggestions, 1):
                    self._print("", f"{number}) {suggestion.label}", "green")
                if message.kind in _STOPS:
                    self._stopped(message.message_id, action=None)
                else:
                    self._settled += 1
            case ActionEvent(decision=Decision(action="handoff" | "refuse")) as action:
                self._stopped(action.action_id, action=action)
            case Outcome(outcome=kind) if kind in _SILENT:
                # A rejected reply is followed by its question once more.
                if kind == "rejected" and self._question is not None:
                    return
                self._print("!", _SILENT[kind], "dim")
                self._settled += 1
            case DeadLettered() as dead:
                self._print("!", f"the turn was put aside: {dead.reason}", "red")
                self._put_aside += 1
                self._settled += 1

    def _stopped(self, action_id: str, *, action: ActionEvent | None) -> None:
        """Say why, when both the message and its action have been seen: two topics, any order."""
        if action_id not in self._half:
            self._half[action_id] = action
            return
        action = self._half.pop(action_id) or action
        hint = claims_hint(action, self._speaker.claims) if action is not None else None
        if hint is not None:
            self._print("!", hint, "yellow")
        self._settled += 1

    def _print(self, who: str, text: str, style: str) -> None:
        line = Text(f"{who:>4} ", style="dim") + Text(text, style=style)
        # What we say may hold a command to copy.
        self._console.print(line, soft_wrap=who == "!")


async def lines_of(descriptor: int, *, prompt: str | None) -> AsyncIterator[str]:
    """The lines that are typed or piped, as they come.

    A thread reads them: a terminal, a pipe and a file cannot all be read by the event loop. It is
    a daemon, so that a read that never returns does not keep the program alive.

    Args:
        descriptor: Where to read.
        prompt: Printed before each line is waited for.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue()

    def read() -> None:
        rest = b""
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                loop.call_soon_threadsafe(queue.put_nowait, line.decode(errors="replace"))
        if rest:
            loop.call_soon_threadsafe(queue.put_nowait, rest.decode(errors="replace"))
        loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, name="lines", daemon=True).start()
    while True:
        if prompt is not None:
            print(prompt, end="", flush=True)  # noqa: T201 - a prompt has no line end
        line = await queue.get()
        if line is None:
            return
        yield line


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
