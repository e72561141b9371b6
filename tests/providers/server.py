"""A server on this machine that plays a script in one provider's format.

It judges every request by the provider's published rules. The first wrong one is kept and raised
when the `with` block ends, whatever the code under test made of the refusal; so are a request
that the script does not have, and steps of it that were never asked for.

One rule is every server's: a reply that comes back stands behind the very request that it was given
to, the instructions and the tools included. Claude's API refuses signed thinking elsewhere
(https://platform.claude.com/docs/en/build-with-claude/preserved-thinking), the others at least read
all of it anew.
"""

import gzip
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Final, NoReturn, Self, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.providers.script import Failure, Heard, Reply, Said, Scripted, Step
from turnstream.models.scripted import UnconsumedSteps, UnexpectedRequest

KEY: Final = "sk-tests-0123456789"
"""The key that servers expect unless they are told another."""

_CHUNK: Final = 37
"""Bytes of a chunk: no event and hardly a word fits."""

_FIXED: Final = ("system", "instructions", "systemInstruction", "tools", "toolConfig")
"""Where a request has what holds for all of its turns."""

_TURNS: Final = ("messages", "contents", "input")
"""Where it has its turns."""

_MARKS: Final = re.compile(
    rb'"((?:toolu_|tooluse_|call_|chatcmpl-tool-|fc-|c)[0-9a-f]+)"'
    rb'|"(?:signature|thoughtSignature|encrypted_content)": *"([^"]+)"'
)
"""What of a reply is nobody else's: the ids of its calls, the seals of its reasoning."""

_CHUNKS: Final = 500
"""So many at most: a megabyte in small ones would take a minute."""


class WrongRequest(AssertionError):
    """A request that the provider would refuse, or that asks for what must not be asked for."""

    def __init__(self, rule: str, detail: str) -> None:
        """Name the rule."""
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


def wrong(rule: str, detail: object) -> NoReturn:
    """Refuse a request by the name of the rule that it breaks."""
    raise WrongRequest(rule, str(detail)[:2_000])


def require(holds: object, rule: str, detail: object) -> None:
    """Refuse a request for which a rule does not hold."""
    if not holds:
        wrong(rule, detail)


class ProviderServer(ABC):
    """Answers in the order of its script."""

    def __init__(self, *steps: Scripted, key: str = KEY) -> None:
        self.steps = [one if isinstance(one, Step) else Step(one) for one in steps]
        self.key = key
        self.heard: list[Heard] = []
        """Every request that took a step of the script, or would have."""
        self.faults: list[AssertionError] = []
        self.ids = count(1)
        self.given_to: dict[str, Heard | None] = {}
        """Mark of a reply to the request that it was given to; None where several have it."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._http: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    # --- what a provider defines ----------------------------------------------------------------

    @abstractmethod
    def check(self, heard: Heard) -> None:
        """Raise :class:`WrongRequest` for what the provider would refuse."""

    @abstractmethod
    def saying(self, said: Said, heard: Heard) -> Reply:
        """A reply in the provider's format, streamed if the request asked for it."""

    @abstractmethod
    def error(self, status: int, kind: str, message: str, *, param: str | None = None) -> Reply:
        """An error in the provider's format; `kind` is OpenAI's word for it."""

    def streams(self, heard: Heard) -> bool:
        """Whether a request asks for a stream."""
        return isinstance(heard.json, dict) and heard.json.get("stream") is True

    def breaking_off(self, failure: Failure, heard: Heard) -> Reply:
        """A stream that ends without its finish, or with an error."""
        return Reply(self.saying(failure.said, heard).body, streamed=True, cut=True)

    def beside(self, heard: Heard) -> Reply | None:
        """The reply to a request that is no step of the script, such as one for a token."""
        return None

    # --- failures that look the same everywhere ------------------------------------------------

    def failing(self, failure: Failure, heard: Heard) -> Reply:
        """A failure as the provider would show it."""
        match failure.kind:
            case "silent":
                return Reply(silent=True)
            case "cut":
                reply = self.saying(failure.said, heard)
                return Reply(reply.body, 200, reply.headers, streamed=reply.streamed, cut=True)
            case "bad_json":
                headers = {"content-type": "application/json"}
                return Reply(b'{"id": "1", "choices": [{', headers=headers)
            case "not_json":
                return Reply(b"<html>Bad Gateway</html>", 502, {"content-type": "text/html"})
            case "compressed_page":
                headers = {"content-type": "text/html", "content-encoding": "gzip"}
                return Reply(gzip.compress(b"<html>Unavailable</html>"), 503, headers)
            case "long_page":
                return Reply(b"<p>" * 500_000, 503, {"content-type": "text/html"})
            case "redirect":
                return Reply(b"", 307, {"location": f"{self.url}/elsewhere"})
            case "stream_ends" | "stream_error" if self.streams(heard):
                return self.breaking_off(failure, heard)
            case "stream_ends":
                return self.failing(Failure("cut", said=failure.said), heard)
            case "rate_limit":
                reply = self.error(429, "rate_limit_exceeded", "Rate limit reached.")
                if failure.retry_after is not None:
                    reply.headers["retry-after"] = failure.retry_after
                return reply
            case "unauthorised":
                return self.error(401, "invalid_api_key", "Incorrect API key provided.")
            case "not_found":
                return self.error(404, "model_not_found", "The model does not exist.")
            case "top_p":
                said = "Unsupported parameter: 'top_p' is not supported with this model."
                return self.error(400, "unsupported_parameter", said, param="top_p")
            case "top_p_bare":
                said = "Unsupported parameter: 'top_p' is not supported with this model."
                return self.error(400, "", said)
            case "top_p_value":
                said = "Invalid 'top_p': decimal above maximum value."
                return self.error(400, "decimal_above_max_value", said, param="top_p")
            case "temperature":
                said = "Unsupported value: 'temperature' does not support 0.2 with this model."
                return self.error(400, "unsupported_value", said, param="temperature")
            case "tools":
                return self.error(400, "unsupported_parameter", self.no_tools, param="tools")
            case "bad_schema":
                said = "Invalid schema for function 'lookup_order'."
                return self.error(400, "invalid_function_parameters", said, param="tools")
            case _:
                return self.error(500, "server_error", "The server had an error.")

    no_tools = "This model does not support tools."
    """The words with which a model without tools refuses them."""

    # --- the script -----------------------------------------------------------------------------

    def answer(self, heard: Heard) -> Reply:
        """The reply to a request. Only one thread at a time comes here."""
        try:
            if (aside := self.beside(heard)) is not None:
                return aside
            at = len(self.heard)
            self.heard.append(heard)
            self.check(heard)
            self._check_beginning(heard)
            if at >= len(self.steps):
                raise UnexpectedRequest(f"request {at + 1}: the script has {len(self.steps)} steps")
            step = self.steps[at]
            if step.expects is not None and not step.expects(heard):
                raise UnexpectedRequest(f"request {at + 1} is not what its step expects: {heard}")
            match step.reply:
                case Reply():
                    return step.reply
                case Said():
                    reply = self.saying(step.reply, heard)
                    for mark in {
                        (one[1] or one[2]).decode() for one in _MARKS.finditer(reply.body)
                    }:
                        self.given_to[mark] = None if mark in self.given_to else heard
                    return reply
                case Failure():
                    return self.failing(step.reply, heard)
        except AssertionError as fault:
            self.faults.append(fault)
            return self.error(400, "invalid_request_error", str(fault))
        except Exception as error:  # noqa: BLE001 - a shape that a check did not think of
            unread = WrongRequest("a shape that can be read", repr(error))
            unread.__cause__ = error
            self.faults.append(unread)
            return self.error(400, "invalid_request_error", repr(error))

    def _check_beginning(self, heard: Heard) -> None:
        """A reply that comes back stands behind what it was given to."""
        fixed, turns = _parts(heard)
        sent = json.dumps(turns)
        for mark, before in self.given_to.items():
            if before is None or json.dumps(mark) not in sent:
                continue
            known, earlier = _parts(before)
            require(known == fixed, "what is before a reply stays: instructions, tools", mark)
            same = turns[: len(earlier)] == earlier
            require(same, "what is before a reply stays: its turns", f"{mark}: {earlier}, {turns}")

    def finish(self) -> None:
        """Raise the first fault, or what was left over.

        Raises:
            WrongRequest: a request broke a rule.
            UnexpectedRequest: a request was not in the script.
            UnconsumedSteps: some steps were never asked for.
        """
        if self.faults:
            raise self.faults[0]
        left = len(self.steps) - len(self.heard)
        if left > 0:
            raise UnconsumedSteps(f"{left} of {len(self.steps)} steps were never asked for")

    @property
    def bodies(self) -> list[Any]:
        """The requests' bodies."""
        return [one.json for one in self.heard]

    # --- the socket -----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The server's address, without a path."""
        assert self._http is not None, "the server is not running"
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        """Listen on a free port."""
        self._http = _Listener(("127.0.0.1", 0), _Handler)
        self._http.provider = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Stop, and say what was wrong; a wrong request explains whatever else failed."""
        assert self._http is not None
        assert self._thread is not None
        self._stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        if self.faults and error is not None:
            raise self.faults[0] from error
        if error is None:
            self.finish()

    def serve(self, handler: "_Handler") -> None:
        """Read one request and reply to it."""
        size = int(handler.headers.get("content-length") or 0)
        body = handler.rfile.read(size)
        if handler.headers.get("transfer-encoding") == "chunked":
            body = _chunks(handler)
        parts = urlsplit(handler.path)
        try:
            value = strictly(body)
        except ValueError:
            value = None
        heard = Heard(
            handler.command,
            unquote(parts.path),
            dict(parse_qsl(parts.query)),
            {name.lower(): text for name, text in handler.headers.items()},
            body,
            value,
        )
        with self._lock:
            reply = self.answer(heard)
        if reply.silent:
            self._stopping.wait()
            return
        send(handler, reply)


def _parts(heard: Heard) -> tuple[dict[str, Any], list[Any]]:
    """What a reply is bound to: what holds for all turns, and the turns."""
    body = heard.json if isinstance(heard.json, dict) else {}
    turns: list[Any] = next((body[key] for key in _TURNS if isinstance(body.get(key), list)), [])
    return {key: body[key] for key in _FIXED if key in body}, turns


class _Listener(ThreadingHTTPServer):
    daemon_threads = False
    provider: ProviderServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20
    """Seconds for a client to send what it has begun: a broken one must not hold the test."""

    def do_POST(self) -> None:
        cast("_Listener", self.server).provider.serve(self)

    do_GET: Callable[[Self], None] = do_POST  # noqa: N815 - the base class's name

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    """Write a reply, or half of it."""
    handler.close_connection = True
    half = len(reply.body) // 2
    try:
        handler.send_response(reply.status)
        for name, text in reply.headers.items():
            handler.send_header(name, text)
        handler.send_header("connection", "close")
        if not reply.streamed:
            handler.send_header("content-length", str(len(reply.body)))
            handler.end_headers()
            handler.wfile.write(reply.body[:half] if reply.cut else reply.body)
            return
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        body = reply.body[:half] if reply.cut else reply.body
        size = max(_CHUNK, len(body) // _CHUNKS)
        for at in range(0, len(body), size):
            piece = body[at : at + size]
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        if not reply.cut:
            handler.wfile.write(b"0\r\n\r\n")
    except (BrokenPipeError, ConnectionResetError):
        return  # the client has heard enough


def _chunks(handler: BaseHTTPRequestHandler) -> bytes:
    body = b""
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


def strictly(body: bytes | str) -> Any:
    """JSON as RFC 8259 has it: no NaN, and no name twice.

    Raises:
        ValueError: it is not.
    """

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name is there twice")
        return found

    return json.loads(body, parse_constant=refuse, object_pairs_hook=once)


def as_json(body: Any, status: int = 200, **headers: str) -> Reply:
    """A JSON reply."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(raw, status, {"content-type": "application/json", **named})


def as_events(*events: Any, names: bool = False, done: bool = False) -> Reply:
    """Server-sent events; with `names` each is called by its `type`."""
    lines = []
    for one in events:
        body = one if isinstance(one, bytes) else json.dumps(one).encode()
        name = b"event: %s\n" % json.loads(body)["type"].encode() if names else b""
        lines.append(name + b"data: " + body + b"\n\n")
    if done:
        lines.append(b"data: [DONE]\n\n")
    return Reply(b"".join(lines), headers={"content-type": "text/event-stream"}, streamed=True)
