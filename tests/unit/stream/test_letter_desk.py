"""Acting on letters: once, in one transaction with its audit record, or not at all."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from aiokafka.errors import (
    IllegalOperation,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from turnstream.config import Settings
from turnstream.stream import letter_post
from turnstream.stream.audit import AuditRecord, name_of
from turnstream.stream.deadletter import DeadLetterTopic, Place, Stage, dead_record
from turnstream.stream.handler import Record
from turnstream.stream.letter_desk import LetterDesk
from turnstream.stream.letter_post import LetterRefused
from turnstream.stream.letters import Letter
from turnstream.stream.partitioner import by_murmur2

from .lane_fakes import record

TURNS = "conversation.turns"
AUDIT = "turnstream.audit"


@dataclass
class Box:
    """Letters without a broker."""

    kept: dict[Place, Record] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {TURNS: 4, AUDIT: 1})
    audit: list[AuditRecord] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def partitions(self, topic: str) -> int:
        """Partitions of a topic."""
        return self.counts.get(topic, 0)

    async def done_with(
        self, letters: Iterable[Letter], *, since: int = 0
    ) -> dict[tuple[str, int], AuditRecord]:
        """What the audit says of letters."""
        self.asked.append(since)
        names = {name_of(one) for one in letters}
        return {one.name: one for one in self.audit if one.name in names}

    async def records(self, places: Sequence[Place]) -> dict[Place, Record]:
        """The records at places."""
        return {place: self.kept[place] for place in places if place in self.kept}

    def add(
        self,
        offset: int,
        *,
        topic: str = TURNS,
        dlq: str | None = None,
        role: str = "decide",
        stage: Stage = "intake",
        max_bytes: int = 10_000,
        **given: Any,
    ) -> Record:
        """Put a record aside; the record."""
        where = DeadLetterTopic(dlq or f"{topic}.dlq", partitions=1, max_bytes=max_bytes)
        source = record(offset, topic=topic, **{"value": b"%d" % offset, **given})
        dead = dead_record(
            source, topic=where, role=role, stage=stage, reason="invalid", detail="", attempts=1
        )
        kept = record(
            len(self.kept), key=dead.key, value=dead.value, topic=where.name, headers=dead.headers
        )
        self.kept[Place(where.name, 0, kept.offset)] = kept
        return source

    @property
    def letters(self) -> list[Letter]:
        """All of them."""
        return [Letter.of(one) for place, one in self.kept.items() if place.topic.endswith(".dlq")]


class Producer:
    """A transactional producer that keeps what was committed."""

    last: "Producer"
    committed: list[list[tuple[str, int | None, bytes | None, bytes | None]]]
    """By all of them."""
    refuses: dict[bytes, Exception]
    """Values that the broker refuses; its refusal of others comes from the client's counting."""

    def __init__(self, **options: Any) -> None:
        """Take any options."""
        self.options = options
        self.open: list[tuple[str, int | None, bytes | None, bytes | None]] | None = None
        self.headers: list[dict[str, bytes | None]] = []
        self.skipped: set[tuple[str, int | None]] = set()
        self.dies = False
        self.aborted = 0
        self.stopped = False
        type(self).last = self

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Disconnect."""
        self.stopped = True

    async def begin_transaction(self) -> None:
        """Begin."""
        assert self.open is None
        self.open = []

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> asyncio.Future[None]:
        """Queue a record."""
        assert self.open is not None
        if self.dies and self.open:
            raise IllegalOperation
        self.open.append((topic, partition, key, value))
        self.headers.append(dict(headers))
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if (topic, partition) in self.skipped:
            future.set_exception(OutOfOrderSequenceNumber())
        elif value in self.refuses:
            self.skipped.add((topic, partition))
            future.set_exception(self.refuses[value])
        else:
            future.set_result(None)
        return future

    async def commit_transaction(self) -> None:
        """Commit."""
        assert self.open is not None
        self.committed.append(self.open)
        self.open = None

    async def abort_transaction(self) -> None:
        """Abort."""
        self.aborted += 1
        self.open = None


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_post, "AIOKafkaProducer", Producer)
    Producer.committed, Producer.refuses = [], {}


def desk(box: Box, **changes: Any) -> LetterDesk:
    """Ann's."""
    given: dict[str, Any] = {
        "actor": "ann",
        "because": "mended",
        "now_ms": lambda: 9_000,
        "max_replays": 2,
        **changes,
    }
    return LetterDesk(Settings(), box, **given)  # type: ignore[arg-type]


async def test_a_replay_and_its_audit_are_one_transaction() -> None:
    """Records in their order where their keys belong, each with its audit record beside it."""
    box = Box()
    box.add(9, key=b"c-1", partition=2)
    box.add(8, key=b"c-1", partition=2)
    async with desk(box) as work:
        result = await work.replay(box.letters)
    (sent,) = Producer.last.committed

    assert [8, 9] == [one.source.offset for one in result.done if one.source is not None]
    assert [TURNS, AUDIT, TURNS, AUDIT] == [topic for topic, *_ in sent]
    home = by_murmur2(b"c-1", 4)
    assert 2 != home
    assert [(home, b"c-1", b"8"), (home, b"c-1", b"9")] == [
        one[1:] for one in sent if one[0] == TURNS
    ]
    noted = orjson.loads(sent[1][3] or b"")
    assert (f"{TURNS}.dlq/0/1", "replayed", "ann", "mended", 9_000) == (
        noted["letter"],
        noted["action"],
        noted["actor"],
        noted["because"],
        noted["at"],
    )
    assert "turnstream-dlq" == Producer.last.options["transactional_id"]
    assert Producer.last.stopped


async def test_what_is_done_with_is_not_done_again() -> None:
    """Whoever did it, and whether it was replayed or discarded; a later namesake is another."""
    box = Box()
    for offset in range(3):
        box.add(offset)
    first, second, third = box.letters
    for one in (first, second):
        action: Any = "replayed" if one is first else "discarded"
        box.audit.append(AuditRecord.about(one, action=action, at=1, actor="ben", because=None))
    namesake = AuditRecord.about(third, action="replayed", at=1, actor="ben", because=None)
    box.audit.append(namesake.model_copy(update={"letter_at": third.at - 1}))
    async with desk(box) as work:
        result = await work.replay(box.letters)

    assert ([third], [first, second]) == (result.done, [one for one, _ in result.already])


async def test_a_discard_is_an_audit_record() -> None:
    """Nothing else is published; a letter that could not be replayed can be discarded."""
    box = Box()
    box.add(1)
    box.add(2, topic="somebody.elses")
    async with desk(box) as work:
        result = await work.discard(box.letters)
    (sent,) = Producer.last.committed

    assert 2 == len(result.done)
    assert [AUDIT, AUDIT] == [topic for topic, *_ in sent]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"topic": "somebody.elses"}, "no topic of this deployment's events"),
        ({"topic": "turnstream.schemas"}, "no topic of this deployment's events"),
        ({"topic": f"{TURNS}.dlq"}, "no topic of this deployment's events"),
        ({"topic": "conversation.control"}, "'conversation.control' does not exist"),
        ({"dlq": "shadow.proposals.dlq"}, "only shadow gave it up"),
        (
            {"topic": "conversation.actions", "role": "execute", "stage": "handling"},
            "execute has published how that call ended",
        ),
        ({"headers": [("turnstream.origin.replays", b"2")]}, "replayed 2 times already"),
        ({"key": None, "value": None}, "neither key nor value"),
    ],
)
async def test_some_letters_are_left_as_they_are(given: dict[str, Any], why: str) -> None:
    """The reason is told, and the others are replayed."""
    box = Box()
    box.add(1, **given)
    box.add(2)
    async with desk(box) as work:
        result = await work.replay(box.letters)

    assert 1 == len(result.done)
    ((left, told),) = result.left
    assert why in told
    assert left.source is not None
    assert 1 == left.source.offset


async def test_what_only_shadow_reads_it_may_be_given_once_more() -> None:
    """No live role takes it."""
    box = Box(counts={"conversation.live-actions": 4, AUDIT: 1})
    box.add(1, topic="conversation.live-actions", dlq="shadow.proposals.dlq")
    async with desk(box) as work:
        result = await work.replay(box.letters)

    assert 1 == len(result.done)


async def test_a_record_is_given_again_to_who_gave_it_up() -> None:
    """What one role gave up the others have handled; what none could read is for all."""
    topics = ("conversation.turns", "conversation.actions")
    box = Box(counts={AUDIT: 1, **dict.fromkeys(topics, 4)})
    box.add(1, stage="intake")
    box.add(2, stage="handling")
    box.add(3, topic="conversation.actions", role="classify", stage="handling")
    async with desk(box) as work:
        result = await work.replay(box.letters)
    sent = Producer.last.headers
    (committed,) = Producer.last.committed
    audits = [orjson.loads(value or b"") for topic, _, _, value in committed if topic == AUDIT]

    assert 3 == len(result.done)
    assert [None, b"decide", b"classify"] == [one.get("turnstream.origin.for") for one in sent[::2]]
    assert ["all", "decide", "classify"] == [one["sent_for"] for one in audits]


async def test_a_letter_that_does_not_say_who_gave_it_up_waits_for_a_person_to_say() -> None:
    """Everybody might handle it twice. Nobody is asked about the others, nor overruled."""
    box = Box()
    box.add(1, role="", stage="handling")
    box.add(2, role="classify", stage="handling")
    async with desk(box) as work:
        unsaid = await work.replay(box.letters)
    first = Producer.last.headers
    async with desk(box, recipient="answer") as work:
        wrong = await work.replay(box.letters[:1])
    async with desk(box, recipient="decide") as work:
        said = await work.replay(box.letters)

    assert ["does not say which role"] == [why[3:26] for _, why in unsaid.left]
    assert [f"answer does not read {TURNS!r}"] == [why for _, why in wrong.left]
    assert b"classify" == first[0]["turnstream.origin.for"]
    assert 2 == len(said.done)
    assert [b"decide", b"classify"] == [
        one["turnstream.origin.for"] for one in Producer.last.headers[::2]
    ]


async def test_what_is_gone_is_told() -> None:
    """The retention ended while somebody was asked."""
    box = Box()
    box.add(1)
    letters = box.letters
    box.kept.clear()
    async with desk(box) as work:
        result = await work.replay(letters)

    assert ["its record is not there any more"] == [why for _, why in result.left]
    assert [] == Producer.last.committed


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            TopicAuthorizationFailedError(),
            rf"the broker refused {TURNS}\.dlq/0/149 .* about {TURNS}\.dlq/0/100 and what",
        ),
        (ProducerFenced(), "another `turnstream .* 100 were replayed before"),
    ],
)
async def test_a_refusal_that_is_not_about_the_record_ends_it(error: Exception, told: str) -> None:
    """What was committed before stays; nothing of its own transaction does. It is named."""
    box = Box()
    for offset in range(150):
        box.add(offset)
    async with desk(box) as work:
        Producer.refuses[b"149"] = error
        with pytest.raises(LetterRefused, match=told):
            await work.replay(box.letters)

    assert [200] == [len(one) for one in Producer.committed]
    assert 1 == Producer.last.aborted


@pytest.mark.parametrize("error", [MessageSizeTooLargeError(), RecordListTooLargeError()])
async def test_a_record_that_is_too_large_is_left_and_the_others_go_on(error: Exception) -> None:
    """Wherever it stands: each that the broker does not take is named, all others keep order."""
    box = Box()
    for offset in range(250):
        box.add(offset, key=b"c-%d" % (offset % 7))
    large = (0, 1, 42, 149, 249)
    done: list[int] = []
    async with desk(box) as work:
        Producer.refuses.update({b"%d" % offset: error for offset in large})
        result = await work.replay(box.letters, progress=done.append)
    sent = [one for part in Producer.committed for one in part]
    expected = [offset for offset in range(250) if offset not in large]

    assert expected == [int(value or b"") for topic, _, _, value in sent if topic == TURNS]
    assert expected == [one.source.offset for one in result.done if one.source is not None]
    assert 245 == sum(topic == AUDIT for topic, *_ in sent)
    assert list(large) == [one.source.offset for one, _ in result.left if one.source is not None]
    assert (
        f"does not take its record, of up to 260 bytes, for {TURNS!r} ({type(error).__name__})"
        in (result.left[0][1])
    )
    assert 250 == sum(done)


async def test_what_another_did_meanwhile_is_not_done_again() -> None:
    """After a refusal the producer is opened anew, and the audit read from the last opening on."""
    box = Box()
    for offset in range(3):
        box.add(offset)
    other = AuditRecord.about(box.letters[2], action="discarded", at=1, actor="ben", because=None)
    async with desk(box) as work:

        async def records(places: Sequence[Place]) -> dict[Place, Record]:
            box.audit = [other]
            return {place: box.kept[place] for place in places}

        Producer.refuses[b"0"] = RecordListTooLargeError()
        box.records = records  # type: ignore[method-assign]
        result = await work.replay(box.letters)

    assert [1] == [one.source.offset for one in result.done if one.source is not None]
    assert [(box.letters[2], other)] == result.already
    assert [box.letters[0]] == [one for one, _ in result.left]
    assert 0 == box.asked[0]
    assert {9_000} == set(box.asked[1:])


async def test_large_records_are_not_all_in_one_transaction() -> None:
    """Packing them takes time, which a transaction has not."""
    box = Box()
    for offset in range(5):
        box.add(offset, value=b"%d" % offset * 3_000_000, max_bytes=4_000_000)
    async with desk(box) as work:
        result = await work.replay(box.letters)

    assert 5 == len(result.done)
    assert [4, 4, 2] == [len(one) for one in Producer.committed]
    assert "gzip" == Producer.last.options["compression_type"]


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, 1),
        ({"timestamp": 2_000}, 0),
        ({"key": b"somebody else's"}, 0),
        ({"key": None}, 0),
    ],
)
@pytest.mark.parametrize("key", [b"c-1", b"k" * 9_000])
async def test_a_pointer_is_followed_to_its_own_record_only(
    key: bytes, changes: dict[str, Any], done: int
) -> None:
    """A topic that was made anew holds other customers' records in the same places."""
    box = Box()
    source = box.add(7, key=key, value=b"x" * 90_000)
    there = replace(source, **changes)
    box.kept[Place(TURNS, 0, 7)] = there
    async with desk(box) as work:
        result = await work.replay(box.letters)

    assert [(True, key if len(key) < 9_000 else None)] == [
        (one.pointer, one.key) for one in box.letters
    ]
    assert (done, 1 - done) == (len(result.done), len(result.left))
    assert all("is not there in conversation.turns/0/7" in why for _, why in result.left)


async def test_a_letter_that_another_has_replaced_is_not_replayed() -> None:
    """The topic of the letters was made anew while somebody was asked."""
    box = Box()
    box.add(1)
    letters = box.letters
    (place,) = box.kept
    box.kept[place] = replace(box.kept[place], timestamp=2_000)
    async with desk(box) as work:
        result = await work.replay(letters)

    assert ["its record is not there any more"] == [why for _, why in result.left]


async def test_what_comes_after_a_failure_is_not_its_cause() -> None:
    """A producer that was ended refuses the next record because it is in no transaction."""
    box = Box()
    box.add(1)
    async with desk(box) as work:
        Producer.last.dies = True
        Producer.refuses[b"1"] = ProducerFenced()
        with pytest.raises(LetterRefused, match="another `turnstream"):
            await work.replay(box.letters)

    assert [] == Producer.last.committed


async def test_without_an_audit_nothing_is_done() -> None:
    """The command that makes the topic is named."""
    with pytest.raises(LetterRefused, match="`turnstream topics apply` makes it"):
        async with desk(Box(counts={TURNS: 4})):
            pass


async def test_a_transaction_that_took_too_long_is_not_only_said_to_be_anothers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker ends it with the same error: who looks for a second person finds none."""
    box = Box()
    box.add(1)
    monkeypatch.setattr(letter_post, "_TRANSACTION_MS", 0)
    async with desk(box) as work:
        Producer.refuses[b"1"] = ProducerFenced()
        with pytest.raises(LetterRefused, match=r"open for more than 0 s, or another `turnstream"):
            await work.replay(box.letters)

    assert [] == Producer.last.committed


async def test_what_is_sent_together_is_bounded_whatever_its_bytes_are_in() -> None:
    """Small values with large headers would outlast the transaction all the same."""
    box = Box()
    for offset in range(5):
        box.add(offset, max_bytes=10_000_000, headers=(("trace", b"x" * 3_000_000),))
    async with desk(box) as work:
        result = await work.replay(box.letters)

    assert 5 == len(result.done)
    assert [2, 2, 1] == [sum(one[0] == TURNS for one in sent) for sent in Producer.last.committed]
