"""Publishes records once more, and what the audit says of them: in one transaction or not at all.

A deployment has one transactional producer for this. Whoever opens it ends another's transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    IllegalOperation,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
    RecordListTooLargeError,
)

from turnstream.core.errors import TurnstreamError
from turnstream.stream.audit import AUDIT, AuditRecord
from turnstream.stream.clients import started
from turnstream.stream.letter_box import REQUEST_MS
from turnstream.stream.transaction import RETRY_BACKOFF_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from turnstream.config import Settings
    from turnstream.stream.letters import Letter, ReadHeaders, Recipient

_TRANSACTION_MS: Final = 10_000
"""Readers of the source topics wait behind an open transaction: a killed command holds them so
long."""

_LARGEST_REQUEST: Final = 64 * 1024 * 1024
"""What a topic takes is the broker's to say, not the client's default of 1 MiB."""

_COMPRESSION: Final = "gzip"
"""A record may have fitted into its topic only because its sender had compressed it, and it comes
back with more headers than it had. Every client reads this one without a library."""

_ABANDON_SECONDS: Final = 5.0
"""After an error, a broker that is gone must not keep the command from ending."""


class LetterRefused(TurnstreamError):
    """What was asked cannot be done; the message says what was done before and what to change."""


class RecordsTooLarge(TurnstreamError):
    """The broker takes some records neither as they are nor compressed; nothing was published."""

    def __init__(self, letters: Sequence[Letter], *, refusal: KafkaError) -> None:
        super().__init__(f"{len(letters)} records are too large ({refusal!r})")
        self.letters = letters
        """Whose records were refused: several may have been sent, and refused, as one batch."""
        self.refusal = refusal


class PostFailed(TurnstreamError):
    """The transaction failed; nothing was published, unless the broker's last word was lost."""

    def __init__(
        self,
        letter: Letter | None,
        *,
        cause: KafkaError | IllegalOperation,
        outlived: float | None = None,
    ) -> None:
        super().__init__(f"the transaction failed ({cause!r})")
        self.letter = letter
        """Whose record or audit record was refused, if it was one."""
        self.cause = cause
        self.outlived = outlived
        """Seconds after which the broker ends a transaction by itself, if it was open for more."""


@dataclass(frozen=True, slots=True)
class Again:
    """A record that is published again."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: ReadHeaders
    recipient: Recipient


@dataclass(frozen=True, slots=True)
class Act:
    """What is published about one letter."""

    letter: Letter
    again: Again | None
    audit: AuditRecord


@dataclass(frozen=True, slots=True)
class _Sent:
    letter: Letter
    future: asyncio.Future[Any]
    record: bool
    """Whether it is the letter's record; else what the audit says."""

    @property
    def failure(self) -> BaseException | None:
        """Why it was not taken, as far as that is known."""
        if not self.future.done() or self.future.cancelled():
            return None
        return self.future.exception()


class LetterPost:
    """The producer of who acts."""

    def __init__(self, settings: Settings) -> None:
        """Prepare.

        Args:
            settings: The deployment's.
        """
        self._settings = settings
        self._audit = settings.topics.name(AUDIT)
        self._producer: Any = None

    async def open(self) -> None:
        """Become the one who acts; what others have done is final then.

        Raises:
            LetterRefused: The broker does not allow it.
        """
        await self.close()
        name = f"{self._settings.topics.prefix}turnstream-dlq"
        self._producer = AIOKafkaProducer(
            **self._settings.kafka.client_options(),
            transactional_id=name,
            transaction_timeout_ms=_TRANSACTION_MS,
            request_timeout_ms=REQUEST_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            max_request_size=_LARGEST_REQUEST,
            compression_type=_COMPRESSION,
        )
        try:
            await self._producer.start()
        except (KafkaError, OSError) as error:
            await self.close()
            raise LetterRefused(
                f"the broker does not open a transaction ({error!r}): is the user allowed the "
                f"transactional id {name!r}?"
            ) from error

    async def close(self) -> None:
        """Disconnect; an open transaction is ended by the broker, or by who acts next."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(_ABANDON_SECONDS):
                    await producer.stop()

    async def commit(self, acts: Sequence[Act]) -> None:
        """Publish all of it in one transaction.

        After a failure it has to be opened anew: the client goes on counting after what the broker
        has refused, and the broker would take no later record of that partition.

        Raises:
            RecordsTooLarge: The broker refused records for their size.
            PostFailed: It refused for another reason.
        """
        sent: list[_Sent] = []
        began = time.monotonic()
        try:
            await self._producer.begin_transaction()
            for act in acts:
                if act.again is not None:
                    future = await self._send(act.again)
                    sent.append(_Sent(act.letter, future, record=True))
                key, value = act.audit.encode()
                future = await self._producer.send(self._audit, value, key=key)
                sent.append(_Sent(act.letter, future, record=False))
            # aiokafka commits although a record was refused: every one is looked at before.
            await asyncio.gather(*(one.future for one in sent), return_exceptions=True)
            for one in sent:
                if one.failure is not None:
                    raise one.failure
            await self._producer.commit_transaction()
        except BaseException as error:
            await self._abandon()
            if not isinstance(error, KafkaError | IllegalOperation):
                raise
            limit = _TRANSACTION_MS / 1000
            outlived = limit if time.monotonic() - began >= limit else None
            raise _told(error, sent, outlived=outlived) from error

    async def _send(self, record: Again) -> asyncio.Future[Any]:
        try:
            future: asyncio.Future[Any] = await self._producer.send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
            )
        except MessageSizeTooLargeError as error:
            # The client's own limit, which is above every broker's: refused like by one.
            future = asyncio.get_running_loop().create_future()
            future.set_exception(error)
        return future

    async def _abandon(self) -> None:
        """End the transaction at once where that is possible; else the broker does, in time."""
        # What aiokafka asserts is that the transaction is not lost already.
        with contextlib.suppress(TimeoutError, KafkaError, IllegalOperation, AssertionError):
            async with asyncio.timeout(_ABANDON_SECONDS):
                await self._producer.abort_transaction()


def _told(
    error: KafkaError | IllegalOperation, sent: Iterable[_Sent], *, outlived: float | None
) -> RecordsTooLarge | PostFailed:
    """Why a transaction failed, of all that failed in it.

    After a first failure aiokafka only says that it is in no transaction, and after a record that
    was refused for its size the broker refuses those that come after it in its partition.
    """
    failed = [(one, failure) for one in sent if (failure := one.failure) is not None]
    if any(isinstance(failure, ProducerFenced) for _, failure in failed):
        return PostFailed(None, cause=ProducerFenced(), outlived=outlived)
    large: list[Letter] = []
    refusal: KafkaError | None = None
    for one, failure in failed:
        if one.record and isinstance(failure, MessageSizeTooLargeError | RecordListTooLargeError):
            large.append(one.letter)
            refusal = refusal or failure
    if refusal is not None:
        return RecordsTooLarge(large, refusal=refusal)
    for one, failure in failed:
        if isinstance(failure, KafkaError | IllegalOperation):
            return PostFailed(one.letter, cause=failure)
    return PostFailed(None, cause=error, outlived=outlived)


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
