"""What is sent in a run: turns, commands, and records that can never be decided."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.chaos import shop
from tests.chaos.stage import PARTITIONS, PATIENCE, Stage, said, until
from turnstream.core.events import ControlKind, ConversationControl, ConversationTurn


@dataclass
class Traffic:
    """Customers who write, and people who take over, close, forget: a function of its seed.

    Paced by how fast turns are decided.
    """

    stage: Stage
    seed: int
    turns: int
    conversations: int
    ahead: int = 400
    """Turns that may be waiting: what is behind is seen by the faults, not by one queue."""
    sent: int = 0
    aborted: int = 0
    """Turns that a transaction of their writer took back."""
    poison: int = 0
    """Records that can never be decided."""
    controls: Counter[str] = field(default_factory=Counter)
    """Kind of control event to how many were sent."""
    _numbers: dict[str, int] = field(default_factory=dict)
    _said: list[ConversationTurn] = field(default_factory=list)
    _upstream: AIOKafkaProducer | None = None

    async def run(self) -> None:
        """Send everything."""
        chance = random.Random(self.seed)
        try:
            while self.sent < self.turns:
                await until(
                    lambda: self.sent - self._settled() < self.ahead,
                    lambda: f"{self._settled()} of {self.sent} turns decided",
                    seconds=2 * PATIENCE,
                )
                what = chance.random()
                if what < 0.01:
                    await self._transaction(chance, abort=chance.random() < 0.6)
                elif what < 0.02:
                    await self._poison(chance)
                elif what < 0.03 and self._said:
                    await self._send(chance.choice(self._said[-200:]))
                elif what < 0.08:
                    await self._control(chance)
                else:
                    burst = [self._turn(chance) for _ in range(chance.randint(1, 8))]
                    await asyncio.gather(*map(self._send, burst))
        finally:
            if self._upstream is not None:
                await self._upstream.stop()

    def _settled(self) -> int:
        self.stage.reading.still_runs()
        ledger = self.stage.ledger
        return ledger.turns - sum(isinstance(one, tuple) and len(one) == 3 for one in ledger.open)

    def _turn(self, chance: random.Random, text: str = "") -> ConversationTurn:
        key = f"c-{self.seed}-{chance.randrange(self.conversations)}"
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        order = f"A-{chance.randrange(1, 9_000)}"
        kind = chance.random()
        if not text:
            text = (
                "when do you open?"
                if kind < 0.4
                else f"look_up {order}"
                if kind < 0.6
                else f"refund {order}"
                if kind < 0.7
                else f"transfer {order}"
                if kind < 0.75
                else f"book {order}"
                if kind < 0.85
                else "look_up please"
                if kind < 0.9
                else f"it is {order}"
                if kind < 0.97
                else "human"
                if kind < 0.995
                else shop.BUG
            )
        return said(key, number, text)

    async def _send(self, turn: ConversationTurn) -> None:
        self.sent += 1
        self._said.append(turn)
        await self.stage.send("conversation.turns", turn)

    async def _control(self, chance: random.Random) -> None:
        kinds: tuple[ControlKind, ...] = (
            *("hand_back",) * 4,
            *("cancel",),
            *("take_over",),
            *("close",) * 2,
            *("forget",) * 2,
        )
        await self.control(
            f"c-{self.seed}-{chance.randrange(self.conversations)}", chance.choice(kinds)
        )

    async def control(self, key: str, kind: ControlKind) -> None:
        """Send a command about a conversation."""
        self.controls[kind] += 1
        control = ConversationControl(
            control_id=f"{key}/{self.controls.total()}",
            conversation_id=key,
            kind=kind,
            actor="desk",
            occurred_at=time.time_ns() // 1_000_000,
        )
        await self.stage.send("conversation.control", control)

    async def say(self, key: str, text: str) -> None:
        """Send a turn of a conversation."""
        number = self._numbers[key] = self._numbers.get(key, 0) + 1
        await self._send(said(key, number, text))

    async def _poison(self, chance: random.Random) -> None:
        """Write a record that can never be decided."""
        turn = self._turn(chance)
        key = turn.conversation_id
        value: bytes | None = self.stage.deployment.codec.encode(turn)
        whose: bytes | None = key.encode()
        partition = self.stage.partition(key)
        match chance.randrange(5):
            case 0:
                whose = None
            case 1:
                value = b'{"text": "JSON, not Avro"}'
            case 2:
                partition = (partition + 1) % PARTITIONS
            case 3:
                value = None
            case _:
                value = (value or b"")[:-3]
        self.sent += 1
        self.poison += 1
        await self.stage.insist("conversation.turns", value, key=whose, partition=partition)

    async def _transaction(self, chance: random.Random, *, abort: bool) -> None:
        """Write turns in a transaction of the writer's, and perhaps take them back."""
        turns = [self._turn(chance) for _ in range(3)]
        try:
            if self._upstream is None:
                self._upstream = AIOKafkaProducer(
                    bootstrap_servers=self.stage.bootstrap,
                    transactional_id=f"{self.stage.settings.topics.prefix}upstream",
                )
                await self._upstream.start()
            await self._upstream.begin_transaction()
            for turn in turns:
                await self._upstream.send_and_wait(
                    self.stage.topic("conversation.turns"),
                    self.stage.deployment.codec.encode(turn),
                    key=turn.conversation_id.encode(),
                    partition=self.stage.partition(turn.conversation_id),
                )
            if abort:
                await self._upstream.abort_transaction()
                self.aborted += len(turns)
            else:
                await self._upstream.commit_transaction()
        except (KafkaError, OSError):
            # Whether these turns exist is for the topic to say; the next writer fences this one.
            if self._upstream is not None:
                with contextlib.suppress(Exception):
                    await self._upstream.stop()
            self._upstream = None
