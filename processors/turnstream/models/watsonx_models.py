"""IBM watsonx.ai's text/chat, by IBM's own library.

The library works in threads, one for each request. It exchanges the key for a token when it is
made, and again when the token ends; a key that has changed makes it anew.
"""

import asyncio
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, cast

import httpx
from ibm_watsonx_ai import APIClient, Credentials
from ibm_watsonx_ai.foundation_models import ModelInference
from ibm_watsonx_ai.wml_client_error import ApiRequestFailure, WMLClientError
from pydantic import ValidationError
from pydantic_core import to_json

from turnstream.config.connectors import WatsonxSettings
from turnstream.core.errors import DefinitionError
from turnstream.core.ports import DeciderRefused, ReplyUnusable
from turnstream.models.refusals import (
    PASSING,
    REDIRECTS,
    REFUSALS,
    TAKES_NO_TOOLS,
    problem,
    says_no_tools,
)
from turnstream.models.secrets_of_models import key_of
from turnstream.models.transport import (
    ModelReply,
    Prompt,
    Replied,
    ToolForm,
    ToolsRefused,
    out_of_form,
    unavailable,
    unread,
)
from turnstream.models.watsonx_replies import read_reply
from turnstream.models.watsonx_stream import put_together
from turnstream.plain_http import retry_after, why_broken, without_framing

# Its library writes what a provider replied into the log, which may repeat the conversation.
for _name in ("ibm_watsonx_ai", "ibm_watsonx_ai.wml_client_error"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_THREADS: Final = 40
"""Requests at the same time; more wait, which is part of their time."""

_STREAM_PATH: Final = "/chat_stream"


class StreamRefused(Exception):
    """A stream was asked for, and something else came.

    Its library makes a text of such a reply, of which nothing can be told any more.
    """

    def __init__(self, response: httpx.Response) -> None:
        """Keep the reply, which has been read."""
        super().__init__()
        self.response = response


Clients = Callable[[], tuple[httpx.Client, httpx.AsyncClient]]


class WatsonxTransport:
    """Speaks to one model."""

    def __init__(self, settings: WatsonxSettings, *, clients: Clients | None = None) -> None:
        """Prepare; nothing is connected to.

        Args:
            settings: the decider's section.
            clients: makes the HTTP clients of the library.
        """
        self._settings = settings
        self._clients = clients or (lambda: watsonx_clients(settings))
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="watsonx")
        self._made: tuple[str, Any] | None = None
        self._http: tuple[httpx.Client, httpx.AsyncClient] | None = None

    @property
    def form(self) -> str:
        """Provider and wire."""
        return "watsonx/chat"

    @property
    def place(self) -> str:
        """Address or region."""
        return self._settings.base_url

    @property
    def model(self) -> str:
        """The configured name."""
        return self._settings.model

    async def reply(self, prompt: Prompt, tools: Sequence[ToolForm]) -> ModelReply:
        """Ask once; see `Transport.reply`."""
        key = key_of(self._settings.api_key) or ""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                reply = await loop.run_in_executor(self._threads, self._asked, key, prompt, tools)
        except (TimeoutError, httpx.TimeoutException):
            raise TimeoutError("no reply in time") from None
        except (ApiRequestFailure, StreamRefused) as error:
            raise _failure(error.response) from None
        except ReplyUnusable:
            raise
        except httpx.HTTPError as error:
            raise unavailable(f"the connection broke ({why_broken(error)})") from None
        except WMLClientError as error:
            # Its subclasses name what is wrong with us; the class itself, a body of no form.
            if type(error) is WMLClientError:
                raise unread(error) from None
            raise DeciderRefused(problem(None, type(error).__name__)) from None
        except ValidationError as error:
            raise out_of_form(error) from None
        except Exception as error:  # noqa: BLE001 - libraries let anything out on a bad reply
            raise unread(error) from None
        return read_reply(reply, stream=self._settings.stream)

    async def close(self) -> None:
        """Release connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._http is not None:
            self._http[0].close()
            await self._http[1].aclose()

    def _asked(self, key: str, prompt: Prompt, tools: Sequence[ToolForm]) -> Any:
        given = self._settings.settings.model_dump(exclude_unset=True, exclude_none=True)
        asked: dict[str, Any] = {
            "messages": _messages(prompt),
            "params": {**given, "max_tokens": self._settings.max_tokens},
        }
        if tools:
            asked["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": one.name,
                        "description": one.description,
                        "parameters": dict(one.parameters),
                    },
                }
                for one in tools
            ]
            asked["tool_choice_option"] = "auto"
        if self._settings.stream:
            return put_together(self._inference(key).chat_stream(**asked))
        return self._inference(key).chat(**asked)

    def _inference(self, key: str) -> Any:
        if self._made is not None and self._made[0] == key:
            return self._made[1]
        if self._http is None:
            self._http = self._clients()
        with warnings.catch_warnings():
            # It warns of what it does not look up, which would be requests that nobody wants.
            warnings.simplefilter("ignore")
            client = APIClient(
                Credentials(url=self._settings.base_url.rstrip("/"), api_key=key),
                project_id=self._settings.project_id,
                space_id=self._settings.space_id,
                scope_validation=False,
                httpx_client=self._http[0],
                async_httpx_client=self._http[1],
            )
        made = ModelInference(
            model_id=self._settings.model, api_client=client, validate=False, max_retries=0
        )
        self._made = (key, made)
        return made


def watsonx_transport(settings: WatsonxSettings) -> WatsonxTransport:
    """Speak to the model of a section.

    Raises:
        DefinitionError: the URL is none that the library takes.
    """
    if not settings.base_url.startswith("https://"):
        raise DefinitionError("base_url: watsonx is reached over https alone")
    return WatsonxTransport(settings)


def watsonx_clients(settings: WatsonxSettings) -> tuple[httpx.Client, httpx.AsyncClient]:
    """The clients that the library is handed: bounded, without redirects, keeping nothing."""
    timeout = settings.timeout_seconds
    bounded = Bounded(httpx.HTTPTransport(trust_env=False), settings.max_reply_bytes)
    client = httpx.Client(
        transport=bounded,
        timeout=timeout,
        trust_env=False,
        follow_redirects=False,
        # None is kept: what is set for one customer's request would go out with another's.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )
    # Handed over because the library would make one of its own; nothing is sent through it.
    unused = httpx.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False)
    return client, unused


class Bounded(httpx.BaseTransport):
    """Reads so many bytes of a reply and no more."""

    def __init__(self, inner: httpx.BaseTransport, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        request.headers["accept-encoding"] = "identity"
        response = self._inner.handle_request(request)
        if response.headers.get("content-encoding", "identity").lower() == "identity":
            stream = cast("httpx.SyncByteStream", response.stream)
            bounded = httpx.Response(
                response.status_code,
                headers=response.headers,
                stream=_BoundedStream(stream, self._max_bytes, cut=not response.is_success),
                extensions=response.extensions,
            )
        else:
            response.close()
            if response.is_success:
                raise ReplyUnusable("a compressed reply, which was not asked for")
            # Of an error the status and the headers say enough: they tell an outage from a refusal.
            bounded = httpx.Response(
                response.status_code, headers=without_framing(response.headers)
            )
        if request.url.path.endswith(_STREAM_PATH) and bounded.status_code != httpx.codes.OK:
            bounded.read()
            raise StreamRefused(bounded)
        return bounded

    def close(self) -> None:
        """Release connections."""
        self._inner.close()


class _BoundedStream(httpx.SyncByteStream):
    def __init__(self, inner: httpx.SyncByteStream, max_bytes: int, *, cut: bool) -> None:
        """Read from a stream; what is too long is cut or, as a reply, not used."""
        self._inner = inner
        self._max_bytes = max_bytes
        self._cut = cut

    def __iter__(self) -> Iterator[bytes]:
        left = self._max_bytes
        for chunk in self._inner:
            left -= len(chunk)
            if left < 0 and self._cut:
                return
            if left < 0:
                raise ReplyUnusable(f"a reply of more than {self._max_bytes} bytes")
            yield chunk

    def close(self) -> None:
        self._inner.close()


def _messages(prompt: Prompt) -> list[Any]:
    messages: list[Any] = [{"role": "system", "content": prompt.system}]
    for turn in prompt.turns:
        if not isinstance(turn, Replied):
            messages.append({"role": turn.role, "content": turn.text})
            continue
        messages.append(turn.kept)
        messages += [
            {
                "role": "tool",
                "tool_call_id": one.call_id,
                "content": to_json(one.as_json()).decode(),
            }
            for one in turn.results
        ]
    return messages


def _failure(response: Any) -> Exception:
    status = response.status_code
    if status in PASSING or response.is_server_error:
        return unavailable(f"status {status}", retry_after_seconds=retry_after(response.headers))
    if response.is_redirect:
        return DeciderRefused(REDIRECTS)
    try:
        first = response.json()["errors"][0]
        code, message = first.get("code"), str(first.get("message"))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        code, message = None, ""
    if status in REFUSALS and says_no_tools(message):
        return ToolsRefused(problem(status, code, what=TAKES_NO_TOOLS))
    return DeciderRefused(problem(status, code))
