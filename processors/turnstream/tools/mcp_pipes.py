"""A bound on what an MCP server may write in one message over its pipe.

The SDK reads a server's messages line by line and keeps a line until it ends. The encoding is the
one thing about its reading that can be chosen: this one is UTF-8 that takes a line beyond the bound
for a broken connection. The SDK then reads on without keeping anything until the server is stopped,
which whoever opened the connection is told to do.
"""

import codecs
from collections.abc import Callable
from contextvars import ContextVar
from encodings import utf_8
from typing import Final

from turnstream.tools.mcp_exchange import REPLY_BYTES

BOUNDED_UTF_8: Final = "turnstream_bounded_utf_8"
"""Its name, as Python knows it."""

STOP: Final[ContextVar[Callable[[], None]]] = ContextVar("turnstream_mcp_stop")
"""What is called at a line beyond the bound; to be set where the connection is opened."""


class _Decoder(utf_8.IncrementalDecoder):
    """UTF-8 in lines of at most so many characters."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._unended = 0

    def decode(self, data: bytes, final: bool = False) -> str:  # type: ignore[override] # noqa: FBT001, FBT002 - as its base
        text: str = super().decode(data, final)
        ended = text.rfind("\n")
        self._unended = self._unended + len(text) if ended < 0 else len(text) - ended - 1
        if self._unended > REPLY_BYTES:
            STOP.get()()
            raise ConnectionAbortedError(f"a message is longer than {REPLY_BYTES} characters")
        return text


def _found(name: str) -> codecs.CodecInfo | None:
    if name != BOUNDED_UTF_8:
        return None
    return codecs.CodecInfo(
        utf_8.encode, utf_8.decode, incrementaldecoder=_Decoder, name=BOUNDED_UTF_8
    )


codecs.register(_found)
