"""Replies that no client should put up with: endless, huge, or small on the wire alone."""

import asyncio
import gzip

from starlette.types import Receive, Scope, Send

EVENTS = "text/event-stream"


def packed() -> bytes:
    """A hundred megabytes of JSON, gzipped."""
    return gzip.compress(b'"' + b" " * 100_000_000 + b'"', compresslevel=1)


class Endless:
    """An ASGI application whose reply goes on until nobody reads it.

    Args:
        piece: what it says again and again.
        kind: the content type.
        begin: what it says first.
        pause: seconds between two pieces.
        count: how many pieces there are in all.
    """

    def __init__(
        self,
        piece: bytes,
        *,
        kind: str = "application/json",
        begin: bytes = b"",
        pause: float = 0.0,
        count: int = 1_000_000,
    ) -> None:
        self.piece = piece
        self.kind = kind
        self.begin = begin
        self.pause = pause
        self.count = count
        self.asked = 0
        """How often it was asked."""
        self.sent = 0
        """Pieces that it has said."""
        self.left = asyncio.Event()
        """Set when its reader has gone before it came to an end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reply."""
        assert scope["type"] == "http"  # a server takes it for an application without a lifespan
        self.asked += 1
        head = [(b"content-type", self.kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": self.begin, "more_body": True})
        watching = asyncio.create_task(self._watch(receive))
        try:
            for _number in range(self.count):
                if watching.done():
                    return
                await send({"type": "http.response.body", "body": self.piece, "more_body": True})
                self.sent += 1
                await asyncio.sleep(self.pause)
            await send({"type": "http.response.body", "body": b""})
        finally:
            watching.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()


def flood(*, kind: str = "application/json", begin: bytes = b'"') -> Endless:
    """A hundred megabytes, streamed."""
    return Endless(b"x" * 1_000_000, kind=kind, begin=begin, count=100)


def drip(*, kind: str = EVENTS, piece: bytes = b": wait\n\n") -> Endless:
    """Signs of life, and no reply."""
    return Endless(piece, kind=kind, pause=0.01)
