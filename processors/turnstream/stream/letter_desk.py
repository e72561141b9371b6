"""Replays and discards dead letters, each once.

A letter is done with when the audit topic says so. Whoever acts opens the one transactional
producer that a deployment has for this, which ends another's transaction, and reads the audit only
then: nobody else can add to it any more. What is replayed and what the audit says of it are
committed together.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    IllegalOperation,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
)

from turnstream.core.errors import TurnstreamError
from turnstream.stream.audit import AUDIT, Action, AuditRecord, name_of
from turnstream.stream.clients import started
from turnstream.stream.contracts import EVENTS
from turnstream.stream.letter_box import REQUEST_MS
from turnstream.stream.letters import in_order, replayed_headers, split
from turnstream.stream.partitioner import partitioner
from turnstream.stream.topics import DEAD_LETTERS, load_topics
from turnstream.stream.transaction import RETRY_BACKOFF_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from turnstream.config import Settings
    from turnstream.stream.handler import Record
    from turnstream.stream.letter_box import LetterBox
    from turnstream.stream.letters import Letter, ReadHeaders, Recipient

_LETTERS: Final = 100
"""Per transaction: bounds what is in memory, and what an interrupt leaves to be done again."""

_TRANSACTION_MS: Final = 10_000
"""Readers of the source topics wait behind an open transaction: a killed command holds them so
long."""

_LARGEST_REQUEST: Final = 64 * 1024 * 1024
"""What a topic takes is the broker's to say, not the client's default of 1 MiB."""

_ABANDON_SECONDS: Final = 5.0
"""After an error, a broker that is gone must not keep the command from ending."""


class LetterRefused(TurnstreamError):
    """What was asked cannot be done; the message says what was done before and what to change."""


@dataclass(slots=True)
class Done:
    """What has become of the letters that an action was asked for."""

    done: list[Letter] = field(default_factory=list)
    already: list[tuple[Letter, AuditRecord]] = field(default_factory=list)
    """Done with before, and how."""
    left: list[tuple[Letter, str]] = field(default_factory=list)
    """Nothing was done, and why."""


@dataclass(frozen=True, slots=True)
class _Again:
    """A record that is published again."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: ReadHeaders
    recipient: Recipient


class LetterDesk:
    """Where a person acts on letters."""

    def __init__(
        self,
        settings: Settings,
        box: LetterBox,
        *,
        actor: str,
        because: str | None,
        now_ms: Callable[[], int],
        max_replays: int,
        recipient: Recipient | None = None,
    ) -> None:
        """Prepare.

        Args:
            settings: The deployment's.
            box: Reads the letters; open.
            actor: Who acts, for the audit.
            because: Why, for the audit.
            now_ms: The wall clock, milliseconds UTC.
            max_replays: Letters whose record was replayed as often stay where they are.
            recipient: For whom those letters are replayed that do not say who gave them up; they
                stay where they are when it is not given.
        """
        self._settings = settings
        self._box = box
        self._actor = actor
        self._because = because
        self._now_ms = now_ms
        self._max_replays = max_replays
        self._recipient = recipient
        self._audit = settings.topics.name(AUDIT)
        self._partition = partitioner(settings.turns.partitioner)
        self._readers = {
            settings.topics.name(one.name): frozenset(one.read_by)
            for one in load_topics()
            if one.name in EVENTS
        }
        self._producer: Any = None

    async def __aenter__(self) -> Self:
        """Become the one who acts.

        Raises:
            LetterRefused: The audit topic is missing, or the broker does not allow it.
        """
        if not self._box.partitions(self._audit):
            raise LetterRefused(
                f"topic {self._audit!r} does not exist: `turnstream topics apply` makes it (an "
                "embedded broker makes a topic when it is first named; the demo names them all)"
            )
        prefix = self._settings.topics.prefix
        self._producer = AIOKafkaProducer(
            **self._settings.kafka.client_options(),
            transactional_id=f"{prefix}turnstream-dlq",
            transaction_timeout_ms=_TRANSACTION_MS,
            request_timeout_ms=REQUEST_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            max_request_size=_LARGEST_REQUEST,
        )
        try:
            await self._producer.start()
        except (KafkaError, OSError) as error:
            await self._close()
            raise LetterRefused(
                f"the broker does not open a transaction ({error!r}): is the user allowed the "
                f"transactional id {prefix + 'turnstream-dlq'!r}?"
            ) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    def obstacle(self, letter: Letter) -> str | None:
        """Why a letter cannot be replayed, as far as it itself says; None: nothing is known."""
        if letter.source is None:
            return "it does not say what record it was"
        topic = letter.source.topic
        readers = self._readers.get(topic)
        if readers is None:
            return f"{topic!r} is no topic of this deployment's events"
        if letter.place.topic != topic + DEAD_LETTERS and readers != {"shadow"}:
            return f"only shadow gave it up; on {topic!r} the live roles would take it once more"
        recipient = letter.recipient or self._recipient
        if recipient is None:
            return (
                "it does not say which role, known to this version, gave it up, and who has "
                "handled it must not be given it again: name the role with --for"
            )
        if recipient != "all" and recipient not in readers:
            return f"{recipient} does not read {topic!r}"
        if not self._box.partitions(topic):
            return f"topic {topic!r} does not exist"
        if letter.replays >= self._max_replays:
            return f"it was replayed {letter.replays} times already (--max-replays)"
        return None

    async def replay(
        self, letters: Iterable[Letter], *, progress: Callable[[int], None] | None = None
    ) -> Done:
        """Publish the records once more where they came from, in the order that they had.

        Raises:
            LetterRefused: The broker refused one; those before it are done.
            LettersUnavailable: They cannot be read.
            AuditUnreadable: Which are done with is not known.
        """
        return await self._act("replayed", in_order(letters), progress=progress)

    async def discard(
        self, letters: Iterable[Letter], *, progress: Callable[[int], None] | None = None
    ) -> Done:
        """Be done with letters; they stay in their topic until its retention ends.

        Raises:
            LetterRefused: The broker refused the audit.
            LettersUnavailable: The audit cannot be read.
            AuditUnreadable: Which are done with is not known.
        """
        return await self._act("discarded", in_order(letters), progress=progress)

    async def _act(
        self,
        action: Action,
        letters: Sequence[Letter],
        *,
        progress: Callable[[int], None] | None,
    ) -> Done:
        result = Done()
        handled = await self._box.done_with(letters)
        waiting: list[Letter] = []
        for letter in letters:
            why = self.obstacle(letter) if action == "replayed" else None
            if (before := handled.get(name_of(letter))) is not None:
                result.already.append((letter, before))
            elif why is not None:
                result.left.append((letter, why))
            else:
                waiting.append(letter)
        for start in range(0, len(waiting), _LETTERS):
            part = waiting[start : start + _LETTERS]
            await self._commit(action, part, result)
            if progress is not None:
                progress(len(part))
        return result

    async def _commit(self, action: Action, letters: Sequence[Letter], result: Done) -> None:
        """One transaction: the records, and what the audit says of them."""
        again: list[tuple[Letter, _Again | None]] = []
        if action == "replayed":
            for letter, record in await self._read(letters):
                if isinstance(record, str):
                    result.left.append((letter, record))
                else:
                    again.append((letter, record))
        else:
            again.extend((letter, None) for letter in letters)
        if not again:
            return
        at = self._now_ms()
        futures: list[asyncio.Future[Any]] = []
        try:
            await self._producer.begin_transaction()
            for letter, sent in again:
                if sent is not None:
                    futures.append(await self._send(letter, sent))
                audit = AuditRecord.about(
                    letter,
                    action=action,
                    at=at,
                    actor=self._actor,
                    because=self._because,
                    sent_to=f"{sent.topic}/{sent.partition}" if sent is not None else None,
                    sent_for=sent.recipient if sent is not None else None,
                )
                key, value = audit.encode()
                futures.append(await self._producer.send(self._audit, value, key=key))
            # aiokafka commits although a record was refused: every one is looked at before.
            for outcome in await asyncio.gather(*futures, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
            await self._producer.commit_transaction()
        except BaseException as error:
            await self._abandon()
            cause = _cause(error, futures)
            if not isinstance(cause, KafkaError | IllegalOperation):
                raise
            raise self._refusal(cause, action, again[0][0], result) from cause
        result.done.extend(letter for letter, _ in again)

    def _refusal(
        self, error: KafkaError | IllegalOperation, action: Action, first: Letter, result: Done
    ) -> LetterRefused:
        if isinstance(error, ProducerFenced):
            return LetterRefused(
                f"another `turnstream dlq` has begun to act; {len(result.done)} were {action} "
                "before, the rest is left to it"
            )
        return LetterRefused(
            f"the broker refused ({error!r}); {len(result.done)} were {action} before, nothing is "
            f"known to be done about {first.place} and what follows it: `turnstream dlq list` "
            "tells"
        )

    async def _abandon(self) -> None:
        """End the transaction at once where that is possible; else the broker does, in time."""
        # What aiokafka asserts is that the transaction is not lost already.
        with contextlib.suppress(TimeoutError, KafkaError, IllegalOperation, AssertionError):
            async with asyncio.timeout(_ABANDON_SECONDS):
                await self._producer.abort_transaction()

    async def _send(self, letter: Letter, record: _Again) -> asyncio.Future[Any]:
        try:
            future: asyncio.Future[Any] = await self._producer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
            )
        except MessageSizeTooLargeError as error:
            raise LetterRefused(
                f"{letter.place} is larger than any topic takes; discard it, or replay the others "
                "by name"
            ) from error
        return future

    async def _read(self, letters: Sequence[Letter]) -> list[tuple[Letter, _Again | str]]:
        """Give what is to be published for each letter, or why there is nothing."""
        kept = {one.place for one in letters}
        elsewhere = {one.source for one in letters if one.pointer and one.source is not None}
        found = await self._box.records([*kept, *elsewhere])
        read: list[tuple[Letter, _Again | str]] = []
        for letter in letters:
            record = found.get(letter.place)
            if letter.pointer and letter.source is not None:
                record = found.get(letter.source)
            if record is None:
                where = f"in {letter.source}, where it still was" if letter.pointer else "any more"
                read.append((letter, f"its record is not there {where}"))
                continue
            read.append((letter, self._again(letter, record)))
        return read

    def _again(self, letter: Letter, record: Record) -> _Again | str:
        own = record.headers if letter.pointer else split(record.headers)[0]
        source, recipient = letter.source, letter.recipient or self._recipient
        if source is None or recipient is None or (record.key is None and record.value is None):
            return "it has neither key nor value"
        count = self._box.partitions(source.topic)
        # Where the key belongs: a record that stood on another partition was given up for that.
        partition = self._partition(record.key, count) if record.key else source.partition % count
        headers = replayed_headers(letter, own, recipient=recipient)
        return _Again(source.topic, partition, record.key, record.value, headers, recipient)

    async def _close(self) -> None:
        """Disconnect; an open transaction is ended by the broker, or by who acts next."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(_ABANDON_SECONDS):
                    await producer.stop()


def _cause(error: BaseException, futures: Iterable[asyncio.Future[Any]]) -> BaseException:
    """Why a transaction failed: after a first failure aiokafka only says that it is not in one."""
    ended = [one for one in futures if one.done() and not one.cancelled()]
    failures = [failure for one in ended if (failure := one.exception()) is not None]
    if isinstance(error, IllegalOperation) and failures:
        return failures[0]
    return error


async def note_revealed(
    settings: Settings, letter: Letter, *, actor: str, because: str | None, at: int
) -> None:
    """Write into the audit that somebody is about to read what a customer wrote.

    Raises:
        LetterRefused: The broker did not take it: the text must not be shown.
    """
    record = AuditRecord.about(letter, action="revealed", at=at, actor=actor, because=because)
    key, value = record.encode()
    topic = settings.topics.name(AUDIT)
    options: Mapping[str, Any] = settings.kafka.client_options()
    producer = AIOKafkaProducer(**options, acks="all", request_timeout_ms=REQUEST_MS)
    try:
        async with started(producer):
            await producer.send_and_wait(topic, value, key=key)
    except (KafkaError, OSError) as error:
        raise LetterRefused(
            f"nothing is revealed, because {topic!r} does not take the note of it ({error!r})"
        ) from error
