"""Replays and discards dead letters, each once.

A letter is done with when the audit topic says so. Whoever acts opens the one transactional
producer that a deployment has for this, which ends another's transaction, and reads the audit only
then: nobody else can add to it any more. What is replayed and what the audit says of it are
committed together. A record that the broker takes in no form is left, and named; the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from aiokafka.errors import ProducerFenced

from turnstream.stream.audit import AUDIT, Action, AuditRecord, name_of
from turnstream.stream.contracts import EVENTS
from turnstream.stream.letter_post import (
    Act,
    Again,
    LetterPost,
    LetterRefused,
    PostFailed,
    RecordsTooLarge,
)
from turnstream.stream.letters import Letter, in_order, replayed_headers, split
from turnstream.stream.partitioner import partitioner
from turnstream.stream.topics import DEAD_LETTERS, load_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from types import TracebackType

    from turnstream.config import Settings
    from turnstream.stream.deadletter import Place
    from turnstream.stream.handler import Record
    from turnstream.stream.letter_box import LetterBox
    from turnstream.stream.letters import Recipient

_LETTERS: Final = 100
"""Per transaction: bounds what is in memory, and what an interrupt leaves to be done again."""

_BYTES: Final = 8 * 1024 * 1024
"""Of letters per transaction: packing a hundred large ones could outlast the transaction, and then
no attempt would ever get further."""


@dataclass(slots=True)
class Done:
    """What has become of the letters that an action was asked for."""

    done: list[Letter] = field(default_factory=list)
    already: list[tuple[Letter, AuditRecord]] = field(default_factory=list)
    """Done with before, and how."""
    left: list[tuple[Letter, str]] = field(default_factory=list)
    """Nothing was done, and why."""


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
        self._post = LetterPost(settings)
        self._opened_at = 0

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
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._post.close()

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
        if letter.recipient == "execute":
            # Its journal has the end, so a replay would be passed over; past the journal's
            # retention the action is too old, and a second end would be published.
            return (
                "execute has published how that call ended, and makes it no more: let the "
                "conversation decide anew, or discard the letter"
            )
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
            LetterRefused: The broker refused one, for another reason than its size; those before
                it are done.
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
        alone: set[Place] = set()
        while waiting:
            part = _part(waiting, alone=alone)
            try:
                await self._commit(action, part, result)
            except RecordsTooLarge as refused:
                # Which one it was is known only of one that was sent by itself.
                if len(part) > 1:
                    alone.update(one.place for one in refused.letters)
                    part = []
                else:
                    result.left.append((part[0], _too_large(part[0], refused)))
                waiting = await self._go_on(waiting[len(part) :], result)
            else:
                waiting = waiting[len(part) :]
            if progress is not None:
                progress(len(part))
        return result

    async def _open(self) -> None:
        """Become the one who acts."""
        await self._post.open()
        self._opened_at = self._now_ms()

    async def _go_on(self, waiting: Sequence[Letter], result: Done) -> list[Letter]:
        """Become the one who acts once more; what is still to do, for another may have acted."""
        if not waiting:
            return []
        since = self._opened_at
        await self._open()
        handled = await self._box.done_with(waiting, since=since)
        result.already.extend(
            (one, handled[name_of(one)]) for one in waiting if name_of(one) in handled
        )
        return [one for one in waiting if name_of(one) not in handled]

    async def _commit(self, action: Action, letters: Sequence[Letter], result: Done) -> None:
        """One transaction: the records, and what the audit says of them."""
        read: Iterable[tuple[Letter, Again | str | None]] = ((one, None) for one in letters)
        if action == "replayed":
            read = await self._read(letters)
        at = self._now_ms()
        acts: list[Act] = []
        gone: list[tuple[Letter, str]] = []
        for letter, again in read:
            if isinstance(again, str):
                gone.append((letter, again))
                continue
            audit = AuditRecord.about(
                letter,
                action=action,
                at=at,
                actor=self._actor,
                because=self._because,
                sent_to=f"{again.topic}/{again.partition}" if again is not None else None,
                sent_for=again.recipient if again is not None else None,
            )
            acts.append(Act(letter, again, audit))
        if acts:
            try:
                await self._post.commit(acts)
            except PostFailed as failed:
                raise _refusal(failed, action, acts[0].letter, result) from failed
        result.done.extend(act.letter for act in acts)
        result.left.extend(gone)

    async def _read(self, letters: Sequence[Letter]) -> list[tuple[Letter, Again | str]]:
        """Give what is to be published for each letter, or why there is nothing."""
        kept = {one.place for one in letters}
        elsewhere = {one.source for one in letters if one.pointer and one.source is not None}
        found = await self._box.records([*kept, *elsewhere])
        read: list[tuple[Letter, Again | str]] = []
        for letter in letters:
            # What is there now may be another: topics are deleted and made anew.
            record = found.get(letter.place)
            there = record is not None and Letter.of(record) == letter
            if letter.pointer and letter.source is not None:
                record = found.get(letter.source)
                there = there and record is not None and letter.names(record)
            if record is None or not there:
                where = f"in {letter.source}, where it still was" if letter.pointer else "any more"
                read.append((letter, f"its record is not there {where}"))
                continue
            read.append((letter, self._again(letter, record)))
        return read

    def _again(self, letter: Letter, record: Record) -> Again | str:
        own = record.headers if letter.pointer else split(record.headers)[0]
        source, recipient = letter.source, letter.recipient or self._recipient
        if source is None or recipient is None or (record.key is None and record.value is None):
            return "it has neither key nor value"
        count = self._box.partitions(source.topic)
        # Where the key belongs: a record that stood on another partition was given up for that.
        partition = self._partition(record.key, count) if record.key else source.partition % count
        headers = replayed_headers(letter, own, recipient=recipient)
        return Again(source.topic, partition, record.key, record.value, headers, recipient)


def _part(waiting: Sequence[Letter], *, alone: Collection[Place]) -> list[Letter]:
    """The next letters that are committed together; those to be sent alone are."""
    part: list[Letter] = []
    size = 0
    for letter in waiting[:_LETTERS]:
        size += letter.size
        if part and (size > _BYTES or letter.place in alone):
            break
        part.append(letter)
        if letter.place in alone:
            break
    return part


def _too_large(letter: Letter, refused: RecordsTooLarge) -> str:
    topic = letter.source.topic if letter.source is not None else letter.place.topic
    return (
        f"the broker does not take its record, of up to {letter.size:,} bytes, for {topic!r} "
        f"({type(refused.refusal).__name__}), though it was sent alone and compressed: raise "
        "max.message.bytes of that topic, or discard the letter"
    )


def _refusal(failed: PostFailed, action: Action, first: Letter, result: Done) -> LetterRefused:
    before = len(result.done)
    if isinstance(failed.cause, ProducerFenced) and failed.outlived is not None:
        return LetterRefused(
            f"the broker has ended the transaction, which was open for more than "
            f"{failed.outlived:g} s, or another `turnstream dlq` has begun to act; {before} were "
            f"{action} before: see that the broker is not overloaded, and run the command again"
        )
    if isinstance(failed.cause, ProducerFenced):
        return LetterRefused(
            f"another `turnstream dlq` has begun to act; {before} were {action} before, the rest "
            "is left to it"
        )
    what = f" {failed.letter.place}" if failed.letter is not None else ""
    return LetterRefused(
        f"the broker refused{what} ({failed.cause!r}); {before} were {action} before, nothing is "
        f"known to be done about {first.place} and what follows it: `turnstream dlq list` tells"
    )
