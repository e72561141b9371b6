"""The two pages of a process for whoever watches it: ``/metrics`` and ``/healthz``.

They are served from a thread of their own, so that a scrape never waits for the event loop and a
loop that hangs is seen: the loop beats, and the page looks at the age of the last beat.
"""

import asyncio
import errno
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import Final, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app

_log = structlog.stdlib.get_logger(__name__)

_REQUEST_SECONDS: Final = 10.0
"""A client that sends half a request would otherwise keep its thread for ever."""

_BEAT_SECONDS: Final = 1.0

_SILENCE_SECONDS: Final = 15.0
"""Longest silence of the event loop that is not yet a problem: the grace of a stop is as long."""

_STOP_SECONDS: Final = 5.0
"""A stop must not wait for a scrape that hangs."""

Problems = Callable[[], Sequence[str]]
"""Tells what is wrong with the process, one line each; empty when all is well."""

Facts = Callable[[], Mapping[str, float | None]]
"""Tells numbers that ``/healthz`` shows beside the problems; they decide nothing."""


class MetricsAddressUnusable(Exception):
    """The address for metrics cannot be listened on; the message says what to change."""


class Heartbeat:
    """Shows that the event loop still runs.

    Args:
        clock: seconds of a steady clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def beat(self) -> None:
        """The loop has run."""
        self._last = self._clock()

    async def run(self) -> None:
        """Beat for as long as the task lives."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    def problems(self) -> Sequence[str]:
        """What is wrong: one line when the last beat is too old."""
        silence = self._clock() - self._last
        if silence <= _SILENCE_SECONDS:
            return ()
        return (f"the event loop has not run for {silence:.0f} s",)


class MetricsServer:
    """Serves the pages from construction to :meth:`close`.

    Args:
        registry: what ``/metrics`` shows.
        host: address to listen on.
        port: port to listen on; 0 takes a free one, see :attr:`port`.
        problems: what ``/healthz`` reports with status 503; 200 when there are none.
        facts: what ``/healthz`` shows as well.

    Raises:
        MetricsAddressUnusable: another process listens there already, or the host is no address
            of this machine.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        problems: Problems = tuple,
        facts: Facts = dict,
    ) -> None:
        try:
            self._server = make_server(
                host,
                port,
                _pages(registry, problems, facts),
                server_class=_Server,
                handler_class=_QuietHandler,
            )
        except (OSError, UnicodeError) as error:  # the latter for what cannot be a host's name
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                raise MetricsAddressUnusable(
                    f"metrics: {host}:{port} is in use by another process; set metrics.port to a "
                    "free port, or to 0 to take any"
                ) from error
            raise MetricsAddressUnusable(
                f"metrics: cannot listen on {host!r}, port {port} ({error}); set metrics.host to "
                "an IPv4 address or a name of this machine, or to 0.0.0.0 for all"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.server_port

    def close(self) -> None:
        """Stop serving and release the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _pages(registry: CollectorRegistry, problems: Problems, facts: Facts) -> WSGIApplication:
    metrics: WSGIApplication = make_wsgi_app(registry)

    def application(environment: WSGIEnvironment, respond: StartResponse) -> Iterable[bytes]:
        if environment["REQUEST_METHOD"] != "GET":
            return _text(respond, "405 Method Not Allowed", "use GET\n")
        match environment.get("PATH_INFO"):
            case "/metrics":
                return metrics(environment, respond)
            case "/healthz":
                found = list(problems())
                status = "503 Service Unavailable" if found else "200 OK"
                body = json.dumps({"ok": not found, "problems": found, **facts()})
                return _text(respond, status, body, kind="application/json")
            case _:
                return _text(respond, "404 Not Found", "there are /metrics and /healthz\n")

    return application


def _text(
    respond: StartResponse, status: str, body: str, *, kind: str = "text/plain"
) -> Iterable[bytes]:
    content = body.encode()
    respond(
        status,
        [("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(content)))],
    )
    return [content]


class _Server(ThreadingMixIn, WSGIServer):
    # A stopped worker's port is taken over at once; a living listener's never is.
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Note a broken request in the log; the default prints a traceback to standard error."""
        error = sys.exc_info()[1]
        _log.info("metrics_request_failed", error=type(error).__name__)


class _QuietHandler(WSGIRequestHandler):
    timeout = _REQUEST_SECONDS

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
        """Write nothing: a line per scrape would drown the log."""
