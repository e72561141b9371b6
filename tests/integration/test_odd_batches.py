"""Batches that a broker takes and its client cannot read: the partition goes on behind them.

Real processes on a real broker.
"""

import gzip
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.codec import zstd_encode
from aiokafka.consumer import fetcher
from aiokafka.record.memory_records import MemoryRecords

from tests.integration.deployed import deployed, now_ms, turn, until
from tests.raw_batches import raw_batch, raw_record, send_batch
from turnstream.core.publications import ActionEvent
from turnstream.stream.deadletter import Place
from turnstream.stream.fetched import MendingRecords
from turnstream.stream.letter_box import LetterBox, LettersUnavailable
from turnstream.stream.letters import FOREIGN

TURNS = "conversation.turns"


async def test_no_batch_stops_a_partition(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A turn under an odd header name is decided; what is bad is a dead letter, bytes untouched.

    The same after a restart, and in a role that leaves dead letters to another.
    """
    async with (
        deployed(kafka_bootstrap, topic_prefix, tmp_path) as on,
        AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer,
    ):
        now = now_ms()
        keys = [on.key_on(0, stem).encode() for stem in ("odd", "zip", "after")]
        odd, lost, after = (
            on.codec.encode(turn(key.decode(), "Hello", turn_id="t")) for key in keys
        )
        names = [(b"trace-\xff", b"\xfe"), (b"\xed\xa0\x80", None)]
        junk = raw_batch(
            [raw_record(0, lost, key=keys[1]), raw_record(1, lost, key=keys[1])],
            codec=1,
            compress=lambda data: gzip.compress(data) + b"junk",
            at=now,
        )
        batches = [
            raw_batch(
                [
                    raw_record(0, odd, key=keys[0], headers=names),
                    raw_record(1, b"not a turn", key=keys[0], headers=names),
                ],
                at=now,
            ),
            junk,
            raw_batch([raw_record(0, after, key=keys[2])], at=now),
        ]
        offsets = [
            await send_batch(producer, batch, on.topic(TURNS), partition=0) for batch in batches
        ]
        assert [0, 2, 4] == offsets

        decide = await on.start("decide")
        classify = await on.start("classify")

        async def decided() -> list[int]:
            actions = await on.events(ActionEvent)
            return sorted(
                one.source.offset for one in actions if one.source.topic == on.topic(TURNS)
            )

        async def all_decided() -> bool:
            return await decided() == [0, 4]

        async def all_read() -> bool:
            return await classify.sample("records_handled_total", topic=TURNS) == 4

        await until(all_decided, decide.text)
        await until(all_read, classify.text)
        bad, unread = sorted(await on.letters(), key=lambda letter: letter.offset)

        assert (1, "malformed", keys[0], b"not a turn") == (
            bad.offset,
            bad.reason,
            bad.key,
            bad.value,
        )
        assert b"\xfe" == bad.headers["trace-\\xff"]
        assert "\\xed\\xa0\\x80" in bad.headers
        assert (3, "missing_key", None) == (unread.offset, unread.reason, unread.key)
        # All but the base offset, which the broker gives.
        assert unread.value is not None
        assert junk[16:] == unread.value[16:]
        assert b"2" == unread.headers["turnstream.batch"]
        assert 3 == await decide.sample("records_mended_total", topic=TURNS)
        assert {
            "ok": True,
            "problems": [],
            "oldest_unfinished_seconds": None,
            "uncommitted_seconds": 0.0,
        } == await decide.health()
        assert {"decide": 0, "classify": 0} == await on.stop_all()

        again = await on.start("decide")
        await on.send(turn(on.key_on(0, "again"), "Hello", turn_id="t"))

        async def again_decided() -> bool:
            return await decided() == [0, 4, 5]

        await until(again_decided, again.text)
        assert 2 == len(await on.letters())


async def test_a_batch_that_comes_to_too_much_is_a_dead_letter(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """A few kilobytes that stand for far more than a record may have; the next turn is decided."""
    async with (
        deployed(kafka_bootstrap, topic_prefix, tmp_path) as on,
        AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer,
    ):
        decide = await on.start("decide")
        much = raw_batch(
            [raw_record(0, bytes(50_000_000), key=on.key_on(0, "much").encode())],
            codec=4,
            compress=zstd_encode,
            at=now_ms(),
        )
        assert len(much) < 10_000
        assert 0 == await send_batch(producer, much, on.topic(TURNS), partition=0)
        await on.send(turn(on.key_on(0, "after"), "Hello", turn_id="t"))

        async def decided() -> bool:
            return bool(await on.events(ActionEvent))

        await until(decided, decide.text)
        (letter,) = await on.letters()

        assert (0, "missing_key", None) == (letter.offset, letter.reason, letter.key)
        assert letter.value is not None
        assert much[16:] == letter.value[16:]


async def test_bad_bytes_are_in_nobodys_way(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records beside which somebody has written what the client cannot read are found all the same.

    In the audit nothing may stand in for what was said there: that is refused with its place.
    """
    # As in a process of the command, whatever was installed in this one.
    monkeypatch.setattr(fetcher, "MemoryRecords", MemoryRecords)
    monkeypatch.setattr(fetcher, "PartitionRecords", MendingRecords.__base__)
    async with (
        deployed(kafka_bootstrap, topic_prefix, tmp_path) as on,
        AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as producer,
    ):
        topic, audited = on.topic(TURNS), on.topic("turnstream.audit")
        odd = raw_record(0, b"odd", headers=[(b"h\xff", b"x")])
        junk = raw_batch(
            [raw_record(0, b"lost")], codec=1, compress=lambda data: gzip.compress(data) + b"junk"
        )
        for batch in (raw_batch([raw_record(0, b"a")]), raw_batch([odd]), junk):
            await send_batch(producer, batch, topic, partition=0)
            await send_batch(producer, batch, f"{topic}.dlq", partition=0)
        await send_batch(producer, raw_batch([raw_record(0, b"b")]), topic, partition=0)
        await send_batch(producer, junk, audited, partition=0)
        async with LetterBox(on.settings) as box:
            places = [Place(topic, 0, offset) for offset in range(4)]
            found = await box.records(places)
            letters = await box.letters(keep=lambda _: True)
            with pytest.raises(LettersUnavailable, match=f"a record of {audited}/0 cannot be read"):
                await box.audit(since=0)

    assert places == sorted(found)
    assert [b"a", b"odd", b"b"] == [found[places[number]].value for number in (0, 1, 3)]
    assert (("h\\xff", b"x"),) == tuple(found[places[1]].headers)
    assert "turnstream.batch" in dict(found[places[2]].headers)
    assert [FOREIGN] * 3 == [letter.reason for letter in letters]
