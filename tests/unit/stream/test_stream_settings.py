"""Settings that contradict each other are refused at once."""

from typing import Any

import pytest

from turnstream.stream.settings import Security

from .lane_fakes import settings


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sources": ()}, "sources"),
        ({"sources": ("a", "a"), "priority": frozenset()}, "sources"),
        ({"changelog": "turns"}, "changelog"),
        ({"priority": frozenset({"other"})}, "priority"),
        ({"grace_seconds": 55.0}, "rebalance_timeout_ms"),
        ({"session_timeout_ms": 50_000}, "request_timeout_ms"),
        ({"heartbeat_interval_ms": 20_000}, "session_timeout_ms"),
        ({"slots": 0}, "slots"),
    ],
)
def test_contradiction_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    """The message names what to change."""
    with pytest.raises(ValueError, match=named):
        settings(**changes)


def test_password_is_never_shown() -> None:
    """A logged setting must not leak a secret."""
    security = Security("SASL_SSL", sasl_mechanism="PLAIN", sasl_password="hunter2")

    assert "hunter2" not in repr(settings(security=security))
    assert "hunter2" == security.client_options()["sasl_plain_password"]
