"""Compressed batches, read with a bound on what comes out of them.

A few kilobytes can stand for any number of gigabytes, and the broker that takes them counts only
the kilobytes. aiokafka decompresses a batch whole, whatever it comes to.
"""

from __future__ import annotations

import gzip
import io
import mmap
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aiokafka import codec as codecs
from aiokafka.errors import UnsupportedCodecError

if TYPE_CHECKING:
    from collections.abc import Iterator

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_NAMES: Final = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
_GZIP_RATIO: Final = 1032
"""The most that a byte can stand for: a match of 258 bytes in two bits."""
_USUAL_RATIO: Final = 16
"""Few events shrink to less: room for so much is cheaper had than room for anything."""
_NO_ROOM: Final = "whole buffer"
"""Part of what cramjam says when the room that it was given is full."""

_XERIAL: Final = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
"""What Java's snappy puts before its blocks."""
_BLOCK: Final = struct.Struct(">i")


class TooLarge(Exception):
    """What a batch comes to is more than may be read."""


def inflated(data: bytes, *, codec: int, most: int) -> bytes:
    """Decompress the records of a batch.

    Memory stays in proportion to the smaller one of `most` and what comes out.

    Args:
        data: the compressed records.
        codec: Kafka's number of the compression.
        most: bytes that may come out.

    Raises:
        TooLarge: more would come out.
        UnsupportedCodecError: the compression is unknown, or its library is missing.
        Exception: the data are none of this compression; each library has errors of its own.
    """
    name = _NAMES.get(codec)
    if name is None or not getattr(codecs, f"has_{name}")():
        raise UnsupportedCodecError(f"compression {name or codec} has no library here")
    if codec == GZIP:
        if _GZIP_RATIO * len(data) <= most:
            plain: bytes = codecs.gzip_decode(data)
            return plain
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            plain = stream.read(most + 1)
        return _checked(plain, most)
    library = codecs.cramjam
    if codec == SNAPPY:
        blocks = [*_snappy_blocks(data)]
        if sum(map(library.snappy.decompress_raw_len, blocks)) > most:
            raise TooLarge
        return b"".join([bytes(library.snappy.decompress_raw(block)) for block in blocks])
    decompress_into = (library.lz4 if codec == LZ4 else library.zstd).decompress_into
    if (usual := _USUAL_RATIO * len(data)) <= most:
        small = bytearray(usual)
        with suppress(library.DecompressionError):
            return bytes(memoryview(small)[: decompress_into(data, small)])
    # Pages of it that nothing is written to take no memory.
    with mmap.mmap(-1, most + 1) as room:
        try:
            size: int = decompress_into(data, room)
        except library.DecompressionError as error:
            if _NO_ROOM in str(error):
                raise TooLarge from None
            raise
        return _checked(room[:size], most)


def _checked(plain: bytes, most: int) -> bytes:
    if len(plain) > most:
        raise TooLarge
    return plain


def _snappy_blocks(data: bytes) -> Iterator[bytes]:
    """Blocks that each begin with the length of what comes out of them."""
    if not data.startswith(_XERIAL):
        yield data
        return
    at = len(_XERIAL)
    while at < len(data):
        (size,) = _BLOCK.unpack_from(data, at)
        at += _BLOCK.size
        if not 0 <= size <= len(data) - at:
            raise ValueError("a block reaches past the end")
        yield data[at : at + size]
        at += size
