"""Partitions of keys, as the common producers choose them."""

from collections import Counter

import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st

from turnstream.stream.partitioner import murmur2, partitioner


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_of_the_java_client(key: bytes, expected: int) -> None:
    """The hash equals, as a signed number, what the Java client's tests list."""
    unsigned = murmur2(key)

    assert expected == unsigned - 2**32 * (unsigned >> 31)


@given(st.binary(max_size=64), st.integers(min_value=1, max_value=100))
def test_murmur2_of_aiokafka(key: bytes, partitions: int) -> None:
    """Any key has the partition that aiokafka's own producer would choose."""
    everything = list(range(partitions))

    assert DefaultPartitioner()(key, everything, everything) == (
        partitioner("murmur2")(key, partitions)
    )


@pytest.mark.parametrize(
    ("key", "expected"), [(b"123456789", 0xCBF43926), (b"", 0), (b"a", 0xE8B7BE43)]
)
def test_crc32_of_librdkafka(key: bytes, expected: int) -> None:
    """The partition is the common CRC-32 modulo the count."""
    assert expected == partitioner("crc32")(key, 2**32)
    assert expected % 12 == partitioner("crc32")(key, 12)


@pytest.mark.parametrize("name", ["murmur2", "crc32"])
def test_keys_spread(name: str) -> None:
    """Conversation ids spread over all partitions about evenly."""
    choose = partitioner("murmur2" if name == "murmur2" else "crc32")
    counts = Counter(choose(f"conversation-{n}".encode(), 4) for n in range(4000))

    assert {0, 1, 2, 3} == set(counts)
    assert min(counts.values()) > 800
