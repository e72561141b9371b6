"""What a broker takes and aiokafka cannot read is read again, or stood in for."""

import gzip
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.structs import TopicPartition

from tests.raw_batches import TIMESTAMP, raw_batch, raw_record
from turnstream.stream import fetched
from turnstream.stream.fetched import STAND_IN_HEADER, mended, read_what_the_broker_took

SOURCE = "turns"
CHANGELOG = "changelog"
READ_COMMITTED = 1
LARGEST = 10_000

ODD = raw_record(0, b"odd", headers=[(b"h\xff", b"\xfe"), (b"trace", None)])
GOOD = raw_record(1, b"good", headers=[(b"tenant", b"a")])


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs the second reader for one test."""
    monkeypatch.setattr(fetcher, "MemoryRecords", fetcher.MemoryRecords)
    monkeypatch.setattr(fetcher, "PartitionRecords", fetcher.PartitionRecords)
    monkeypatch.setattr(fetched, "_largest", {})
    mended.clear()
    read_what_the_broker_took([SOURCE], max_record_bytes=LARGEST)
    yield
    mended.clear()


def fetch(
    *batches: bytes,
    topic: str = SOURCE,
    start: int = 0,
    aborted: tuple[tuple[int, int], ...] = (),
) -> Any:
    """The records of one fetch, as the fetcher iterates them."""
    return fetcher.PartitionRecords(
        TopicPartition(topic, 0),
        fetcher.MemoryRecords(b"".join(batches)),
        list(aborted),
        start,
        None,
        None,
        True,
        READ_COMMITTED,
    )


def read(records: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record."""
    return [(one.offset, one.key, one.value) for one in records]


@pytest.mark.parametrize(
    ("codec", "compress"), [(0, bytes), (1, gzip.compress)], ids=["plain", "gzip"]
)
def test_an_odd_header_name_is_escaped(codec: int, compress: Callable[[bytes], bytes]) -> None:
    """Key, value, header values and the records around it are what was written."""
    batch = raw_batch([ODD, GOOD], codec=codec, compress=compress)
    records = fetch(batch, raw_batch([raw_record(0, b"next")], base=2))
    found = list(records)

    assert [(0, b"k", b"odd"), (1, b"k", b"good"), (2, b"k", b"next")] == read(found)
    assert (("h\\xff", b"\xfe"), ("trace", None)) == found[0].headers
    assert (("tenant", b"a"),) == found[1].headers
    assert [TIMESTAMP] * 3 == [one.timestamp for one in found]
    assert 3 == records.next_fetch_offset
    assert {SOURCE: 1} == mended


def test_every_consumer_reads_odd_header_names() -> None:
    """A topic that nothing may stand in for is read all the same."""
    assert [(0, b"k", b"odd"), (1, b"k", b"good")] == read(
        fetch(raw_batch([ODD, GOOD]), topic=CHANGELOG)
    )


def test_nothing_is_read_twice_or_left_out() -> None:
    """Reading again goes on at the record that failed, behind batches, markers and aborted ones."""
    transactional = 0x10
    control = 0x30
    abort, commit = b"\0\0\0\0", b"\0\0\0\1"
    given_up = raw_batch([GOOD], base=4, attributes=transactional, producer=7)
    batches = (
        raw_batch([raw_record(0, b"a"), raw_record(1, b"b")]),
        raw_batch([raw_record(0, b"c")], base=2, attributes=transactional, producer=7),
        raw_batch([raw_record(0, b"", key=commit)], base=3, attributes=control, producer=7),
        raw_batch([raw_record(0, b"d"), raw_record(1, b"odd", headers=[(b"\xc3", b"")])], base=4),
        raw_batch([raw_record(0, b"x")], base=6, attributes=transactional, producer=7),
        raw_batch([raw_record(0, b"", key=abort)], base=7, attributes=control, producer=7),
        raw_batch([raw_record(0, b"e")], base=8, attributes=transactional, producer=7),
        given_up[:-3],  # a fetch ends anywhere
    )
    records = fetch(*batches, start=1, aborted=((7, 6),))

    assert [
        (1, b"k", b"b"),
        (2, b"k", b"c"),
        (4, b"k", b"d"),
        (5, b"k", b"odd"),
        (8, b"k", b"e"),
    ] == read(records)
    assert 9 == records.next_fetch_offset


def test_the_first_byte_of_a_record_is_a_byte() -> None:
    """Once a batch is read again, an attribute that looks like a long number is passed over."""
    batch = raw_batch([ODD, raw_record(1, b"good", attributes=0x80)])

    assert [(0, b"k", b"odd"), (1, b"k", b"good")] == read(fetch(batch))


UNREADABLE = {
    "gzip": raw_batch([GOOD, GOOD], codec=1, compress=lambda data: gzip.compress(data) + b"junk"),
    "zstd": raw_batch([GOOD, GOOD], codec=4, compress=lambda _: b"no frame"),
    "record": raw_batch([raw_record(0, b"a"), raw_record(1, b"b", tail=b"zz")]),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_batch_that_cannot_be_read_is_stood_in_for(name: str) -> None:
    """Its bytes come as one record at its last offset, and the partition goes on."""
    batch = UNREADABLE[name]
    records = fetch(batch, raw_batch([raw_record(0, b"next")], base=2))
    *before, stand_in, after = list(records)

    assert [(0, b"k", b"a")] * (name == "record") == read(before)
    assert (1, None, batch) == (stand_in.offset, stand_in.key, stand_in.value)
    assert ((STAND_IN_HEADER, b"2"),) == stand_in.headers
    assert (2, b"next") == (after.offset, after.value)
    assert {SOURCE: 1} == mended


@pytest.mark.parametrize("name", UNREADABLE)
def test_nothing_stands_in_for_a_changelog(name: str) -> None:
    """State that cannot be read is an error, never a smaller state."""
    with pytest.raises(Exception, match=r"gzip|frame|ends elsewhere"):
        list(fetch(UNREADABLE[name], topic=CHANGELOG))


def test_a_wrong_checksum_stays_an_error() -> None:
    """What was damaged on its way is fetched again."""
    damaged = bytearray(raw_batch([ODD, GOOD]))
    damaged[-1] ^= 1

    with pytest.raises(CorruptRecordException, match="CRC"):
        list(fetch(bytes(damaged)))


def test_a_missing_library_stays_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another installation can read must not become dead letters."""
    monkeypatch.setattr("aiokafka.codec.has_gzip", lambda: False)

    with pytest.raises(UnsupportedCodecError):
        list(fetch(raw_batch([ODD], codec=1, compress=gzip.compress)))


@pytest.mark.parametrize("deltas", [(128,), (0, 5)])
@pytest.mark.parametrize("codec", [0, 1])
def test_an_offset_beyond_its_batch_moves_no_position(deltas: tuple[int, ...], codec: int) -> None:
    """The batch is stood in for from there on; what comes behind it is read."""
    transactional, control = 0x10, 0x30
    wild = raw_batch(
        [raw_record(delta, b"v") for delta in deltas],
        base=5,
        codec=codec,
        compress=gzip.compress if codec else bytes,
    )
    behind = 5 + len(deltas)
    records = fetch(
        raw_batch([raw_record(0, b"a")]),
        raw_batch([raw_record(0, b"x")], base=1, attributes=transactional, producer=7),
        raw_batch([raw_record(0, b"", key=b"\0\0\0\0")], base=2, attributes=control, producer=7),
        wild,
        raw_batch([raw_record(0, b"next")], base=behind),
        aborted=((7, 1),),
    )

    assert [
        (0, b"k", b"a"),
        *[(5, b"k", b"v")] * (len(deltas) - 1),
        (behind - 1, None, wild),
        (behind, b"k", b"next"),
    ] == read(records)
    assert behind + 1 == records.next_fetch_offset


CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, gzip_encode),
    "snappy": (2, snappy_encode),
    "snappy, one block": (2, lambda data: bytes(snappy_encode(data, xerial_compatible=False))),
    "lz4": (3, lz4_encode),
    "zstd": (4, zstd_encode),
}


def of_size(size: int, *, name: str, base: int = 0) -> bytes:
    """A compressed batch of two records that come to about `size` bytes."""
    codec, compress = CODECS[name]
    half = bytes(size // 2)
    return raw_batch(
        [raw_record(0, half), raw_record(1, half)], base=base, codec=codec, compress=compress
    )


@pytest.mark.parametrize("size", [100, 3 * LARGEST, 31 * LARGEST])
@pytest.mark.parametrize("name", CODECS)
def test_a_compressed_batch_is_read_up_to_a_bound(name: str, size: int) -> None:
    """Small and large ones give the records that were written, and the fetch goes on."""
    records = fetch(of_size(size, name=name), raw_batch([ODD], base=2), start=1)
    first = next(records)

    assert (1, b"k", bytes(size // 2)) == (first.offset, first.key, first.value)
    assert TIMESTAMP == first.timestamp
    assert 2 == records.next_fetch_offset
    if size < LARGEST:
        assert [(2, b"k", b"odd")] == read(records)


@pytest.mark.parametrize("name", CODECS)
def test_a_batch_that_comes_to_too_much_is_stood_in_for(name: str) -> None:
    """A few bytes do not become any number of them."""
    batch = of_size(40 * LARGEST, name=name)
    records = fetch(batch, raw_batch([raw_record(0, b"next")], base=2))

    assert [(1, None, batch), (2, b"k", b"next")] == read(records)
    assert {SOURCE: 1} == mended


@pytest.mark.parametrize("name", CODECS)
def test_a_changelog_is_read_whatever_it_comes_to(name: str) -> None:
    """Its only writer is this program; a state that is left out would be a loss."""
    records = fetch(of_size(40 * LARGEST, name=name), topic=CHANGELOG)

    assert [20 * LARGEST] * 2 == [len(one.value) for one in records]


@pytest.mark.parametrize("odd", [False, True])
def test_a_fetch_that_comes_to_much_ends_early(odd: bool) -> None:
    """What is left of it is fetched again, from the batch after the last one that was read."""
    batches = [of_size(9 * LARGEST, name="zstd", base=base) for base in range(2, 20, 2)]
    first = raw_batch([ODD if odd else raw_record(0, b"a"), raw_record(1, b"b")])

    offsets: list[int] = []
    fetches = 0
    while len(offsets) < 20:
        start = len(offsets)
        records = fetch(*[first, *batches][start // 2 :], start=start)
        offsets += [one.offset for one in records]
        fetches += 1

        assert records.next_fetch_offset == len(offsets)

    assert list(range(20)) == offsets
    assert 5 == fetches


def test_a_record_of_headers_alone_is_stood_in_for() -> None:
    """In a large batch, where what is read may be many times what was decompressed."""
    many = raw_record(1, b"b", headers=[(b"", None)] * (2 * LARGEST))
    batch = raw_batch([raw_record(0, b"a"), many], codec=4, compress=zstd_encode)

    assert [(0, b"k", b"a"), (1, None, batch)] == read(fetch(batch))


@pytest.mark.parametrize("name", ["plain", *CODECS])
def test_damaged_batches_never_stop_a_partition(name: str) -> None:
    """Whatever a batch's bytes are, it is read or stood in for; no reader leaves its bounds."""
    codec, compress = CODECS.get(name, (0, bytes))
    dice = random.Random(name)
    for _ in range(300):
        values = [dice.randbytes(dice.randrange(20)) for _ in range(dice.randint(1, 4))]
        plain = b"".join(
            raw_record(delta, value, headers=[(b"h", b"x")] * dice.randrange(3))
            for delta, value in enumerate(values)
        )
        damaged = bytearray(plain if name == "plain" else compress(plain))
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(damaged))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF))
        if name == "plain" or dice.random() < 0.5:
            del damaged[dice.randrange(len(damaged)) :]
        batch = raw_batch([bytes(damaged), *[b""] * (len(values) - 1)], codec=codec)

        found = list(fetch(batch))

        assert all(one.offset >= 0 for one in found)
