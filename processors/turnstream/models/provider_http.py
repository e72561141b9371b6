"""The HTTP client of a provider: one host, no redirects, a bounded reply, the secret at each call.

It takes nothing from the environment, keeps no cookies and asks for replies as they are: a
compressed one could be small on the wire and large in memory.
"""

from collections.abc import AsyncIterator, Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx2

from turnstream.config.secrets import SecretRef
from turnstream.core.ports import ReplyUnusable
from turnstream.models.secrets_of_models import key_of
from turnstream.plain_http import without_framing

NO_KEY: Final = "none"
"""Stands for the key where SDKs want one at their construction; it never goes out."""

_KEY_HEADERS: Final = ("x-api-key", "x-goog-api-key", "api-key")
"""Where providers look for a key, if not in `Authorization`."""

_CONNECT_SECONDS: Final = 4.0
"""Longest wait for a connection: an address that does not answer would use up a whole request."""

_CONNECTIONS: Final = 1000
"""As many as the default slots: with fewer, requests use up their time waiting for each other."""


def provider_client(
    reference: SecretRef | None,
    *,
    timeout_seconds: float,
    max_reply_bytes: int,
    mended: Callable[[bytes], bytes] | None = None,
) -> httpx2.AsyncClient:
    """A client for one provider.

    Args:
        reference: where its key is; read at each request.
        timeout_seconds: of each phase of a request.
        max_reply_bytes: longest body that is read.
        mended: makes a body readable to a library that would fail on it; bodies are then read whole
            before the library sees any of it.
    """

    async def with_key(request: httpx2.Request) -> None:
        key = key_of(reference)
        named = next((name for name in _KEY_HEADERS if name in request.headers), None)
        if named is not None and key is not None:
            request.headers[named] = key
        elif key is not None:
            request.headers["authorization"] = f"Bearer {key}"
        else:
            request.headers.pop("authorization", None)

    return httpx2.AsyncClient(
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        timeout=httpx2.Timeout(timeout_seconds, connect=min(_CONNECT_SECONDS, timeout_seconds)),
        transport=_Bounded(max_reply_bytes, mended),
        event_hooks={"request": [with_key]},
    )


class _Bounded(httpx2.AsyncBaseTransport):
    """Reads so many bytes of a reply and no more."""

    def __init__(self, max_bytes: int, mended: Callable[[bytes], bytes] | None) -> None:
        self._inner = httpx2.AsyncHTTPTransport(
            trust_env=False,
            limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=100),
        )
        self._max_bytes = max_bytes
        self._mended = mended

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            if response.is_success:
                raise ReplyUnusable("a compressed reply, which was not asked for")
            # Of an error the status and the headers say enough: they tell an outage from a refusal.
            return httpx2.Response(response.status_code, headers=without_framing(response.headers))
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError("an asynchronous transport replies with asynchronous streams")
        bounded = _BoundedStream(stream, self._max_bytes, cut=not response.is_success)
        if self._mended is None:
            return httpx2.Response(
                response.status_code,
                headers=response.headers,
                stream=bounded,
                extensions=response.extensions,
            )
        try:
            body = b"".join([chunk async for chunk in bounded])
        finally:
            await bounded.aclose()
        return httpx2.Response(
            response.status_code,
            headers=without_framing(response.headers),
            content=self._mended(body),
            request=request,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int, *, cut: bool) -> None:
        """Read from a stream; what is too long is cut or, as a reply, not used."""
        self._inner = inner
        self._max_bytes = max_bytes
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._max_bytes
        async for chunk in self._inner:
            left -= len(chunk)
            if left < 0 and self._cut:
                return
            if left < 0:
                raise ReplyUnusable(f"a reply of more than {self._max_bytes} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
