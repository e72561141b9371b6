"""The pages of a process, over real sockets."""

import json
import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from turnstream.metrics import Heartbeat, Metrics, MetricsAddressUnusable, MetricsServer


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body of a page."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_are_served() -> None:
    """The metrics page shows the registry's metrics."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.turn("customer")

    with MetricsServer(registry) as server:
        status, body = get(server.port, "/metrics")

    assert status == 200
    assert 'turnstream_turns_total{role="customer"} 1.0' in body


def test_health_follows_the_problems() -> None:
    """The health page is 200 without problems and 503 with them, naming each."""
    problems: list[str] = []

    with MetricsServer(CollectorRegistry(), problems=lambda: problems) as server:
        well = get(server.port, "/healthz")
        problems.append("the broker is away")
        ill = get(server.port, "/healthz")

    assert well == (200, json.dumps({"ok": True, "problems": []}))
    assert ill == (503, json.dumps({"ok": False, "problems": ["the broker is away"]}))


def test_health_shows_facts_that_decide_nothing() -> None:
    """Numbers stand beside the problems, None where there is nothing to measure."""
    facts = {"oldest_unfinished_seconds": 900.5, "uncommitted_seconds": None}

    with MetricsServer(CollectorRegistry(), facts=lambda: facts) as server:
        status, body = get(server.port, "/healthz")

    assert status == 200
    assert {"ok": True, "problems": [], **facts} == json.loads(body)


def test_other_pages_and_methods_are_refused() -> None:
    """Nothing but GET on the two pages is answered."""
    with MetricsServer(CollectorRegistry()) as server:
        assert get(server.port, "/secrets")[0] == 404
        assert get(server.port, "/metrics", "DELETE")[0] == 405


def test_a_taken_port_is_a_clear_error() -> None:
    """A second server on the same port is refused, with the setting to change."""
    with (
        MetricsServer(CollectorRegistry()) as server,
        pytest.raises(
            MetricsAddressUnusable, match=f"127.0.0.1:{server.port} is in use.*metrics.port"
        ),
    ):
        MetricsServer(CollectorRegistry(), port=server.port)


@pytest.mark.parametrize("host", ["nowhere.invalid", "a" * 64 + ".b", "203.0.113.1", "::1"])
def test_a_host_that_is_not_here_is_a_clear_error(host: str) -> None:
    """A name that does not resolve and an address of another machine name the setting to change."""
    with pytest.raises(MetricsAddressUnusable, match=f"'{host}'.*metrics.host"):
        MetricsServer(CollectorRegistry(), host=host)


def test_a_restart_takes_its_port_over() -> None:
    """The port of a stopped server, connections just closed, is free at once."""
    with MetricsServer(CollectorRegistry()) as server:
        port = server.port
        get(port, "/healthz")

    with MetricsServer(CollectorRegistry(), port=port) as again:
        assert get(again.port, "/healthz")[0] == 200


def test_two_servers_live_in_one_process() -> None:
    """Two instances in one process serve their own registries."""
    one, two = CollectorRegistry(), CollectorRegistry()
    Metrics(one).turn("agent")
    Metrics(two)

    with MetricsServer(one) as first, MetricsServer(two) as second:
        assert 'role="agent"' in get(first.port, "/metrics")[1]
        assert 'role="agent"' not in get(second.port, "/metrics")[1]


def test_a_broken_request_does_not_end_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    """After a request cut short the pages are still there and no traceback was printed."""
    with MetricsServer(CollectorRegistry()) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as broken:
            broken.sendall(b"GET /metr")
        assert get(server.port, "/healthz")[0] == 200

    assert "Traceback" not in capfd.readouterr().err


def test_a_silent_loop_is_a_problem() -> None:
    """The heartbeat reports a loop that has not run for too long, and recovers with a beat."""
    now = 100.0
    heart = Heartbeat(clock=lambda: now)
    fresh = heart.problems()
    now = 120.0
    late = heart.problems()
    heart.beat()

    assert [] == list(fresh)
    assert ["the event loop has not run for 20 s"] == list(late)
    assert [] == list(heart.problems())
