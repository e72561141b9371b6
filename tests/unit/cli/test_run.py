"""``turnstream run``: what cannot be started exits 2 and says what to change, and where."""

import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests import small_shop
from turnstream.cli.root import app

DECIDERS = {"by_word": {"kind": "python", "target": "tests.small_shop:by_word"}}


def deployment(folder: Path, *, catalog: str | None = None, **changes: Any) -> Path:
    """Write a configuration and a catalog."""
    text = yaml.safe_dump(small_shop.CATALOG, sort_keys=False) if catalog is None else catalog
    (folder / "catalog.yaml").write_text(text)
    path = folder / "turnstream.yaml"
    path.write_text(yaml.safe_dump({"catalog": "catalog.yaml", "deciders": DECIDERS, **changes}))
    return path


def run(role: str, config: Path) -> tuple[int, str]:
    """Exit status and standard error."""
    result = CliRunner().invoke(app, ["run", role, "-c", str(config)])
    assert "" == result.stdout
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("partitions: 4\nkafka:\n  bootstrap: x\n", ["turnstream.yaml:3", "kafka.bootstrap"]),
        ("partitions: many\n", ["turnstream.yaml:1", "partitions", "should be a valid integer"]),
        ("start_from: yesterday\n", ["turnstream.yaml:1", "start_from", "expected latest"]),
        ("stream: {grace_seconds: 90}\n", ["turnstream.yaml:1", "grace_seconds must be below"]),
        ("decider: {\n", ["turnstream.yaml"]),
        ("- a list\n", ["turnstream.yaml:1", "expected a mapping"]),
    ],
)
def test_a_bad_configuration_is_named_to_the_line(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    """Nothing is connected to before."""
    path = tmp_path / "turnstream.yaml"
    path.write_text(text)

    status, errors = run("decide", path)

    assert 2 == status
    assert "turnstream run decide: not started" in errors
    for part in expected:
        assert part in errors
    assert "Traceback" not in errors


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    """By its path."""
    status, errors = run("decide", tmp_path / "absent.yaml")

    assert 2 == status
    assert "absent.yaml" in errors


@pytest.mark.parametrize("role", ["decide", "execute", "answer", "classify", "shadow"])
def test_a_bad_catalog_stops_every_role(tmp_path: Path, role: str) -> None:
    """With the line of each fault."""
    text = yaml.safe_dump(small_shop.CATALOG, sort_keys=False)
    text = text.replace("effect: read", "effect: maybe").replace("of_tool: get_order", "of_tool: x")
    faulty = [n for n, line in enumerate(text.splitlines(), 1) if "effect: maybe" in line]

    status, errors = run(role, deployment(tmp_path, catalog=text))

    assert 2 == status
    assert f"catalog.yaml:{faulty[0]}" in errors
    assert "tools.get_order.effect" in errors
    assert "should be 'read' or 'write', got 'maybe'" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("role", "changes", "message"),
    [
        (
            "decide",
            {"deciders": {"by_word": {"kind": "python", "target": "no_such_module:make"}}},
            "deciders.by_word.target: cannot import 'no_such_module:make'",
        ),
        ("decide", {"deciders": {}}, "no decider 'by_word'"),
        (
            "answer",
            {
                "kafka": {
                    "security_protocol": "SASL_PLAINTEXT",
                    "sasl_username": "me",
                    "sasl_password": "env:NO_SUCH_VARIABLE",
                }
            },
            "NO_SUCH_VARIABLE",
        ),
    ],
)
def test_what_cannot_be_put_together_is_named(
    tmp_path: Path, role: str, changes: dict[str, Any], message: str
) -> None:
    """A decider, a secret: the process does not start."""
    status, errors = run(role, deployment(tmp_path, **changes))

    assert 2 == status
    assert message in errors
    assert "Traceback" not in errors


MODEL = {"kind": "custom", "model": "m", "base_url": "http://127.0.0.1:1/reply"}


def test_a_role_does_not_start_without_its_secrets(tmp_path: Path) -> None:
    """It would look healthy and hand off every turn; each is named at once."""
    deciders = {
        "by_word": {**MODEL, "api_key": "env:NO_SUCH_KEY"},
        "other": {**MODEL, "api_key": "file:absent.key"},
    }
    catalog = yaml.safe_dump(
        {
            **small_shop.CATALOG,
            "agents": {
                "shop": {"description": "S.", "decider": "by_word"},
                "desk": {"description": "D.", "decider": "other"},
            },
        }
    )

    status, errors = run("decide", deployment(tmp_path, catalog=catalog, deciders=deciders))

    assert 2 == status
    assert "deciders.by_word.api_key: env:NO_SUCH_KEY: set the environment variable" in errors
    assert "deciders.other.api_key: file:absent.key" in errors
    assert "Traceback" not in errors


def test_a_tool_that_cannot_be_bound_is_named(tmp_path: Path) -> None:
    """The executor does not start half able."""
    text = yaml.safe_dump(small_shop.CATALOG).replace("tests.small_shop:get_order", "nowhere:no")

    status, errors = run("execute", deployment(tmp_path, catalog=text))

    assert 2 == status
    assert "tools.get_order.binding" in errors
    assert "nowhere" in errors


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The file is in the message."""
    kafka = {"security_protocol": "SSL", "ssl_cafile": "absent.pem"}

    status, errors = run("answer", deployment(tmp_path, kafka=kafka))

    assert 2 == status
    assert "absent.pem" in errors


def test_a_metrics_port_in_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the group is joined."""

    async def nothing(*_: object) -> None:
        """The broker is not asked."""

    monkeypatch.setattr("turnstream.roles.run._prepared", nothing)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, errors = run("answer", deployment(tmp_path, metrics={"port": port}))

    assert 2 == status
    assert f"127.0.0.1:{port} is in use" in errors


def test_a_metrics_host_that_is_nowhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the group is joined, and without a traceback."""

    async def nothing(*_: object) -> None:
        """The broker is not asked."""

    monkeypatch.setattr("turnstream.roles.run._prepared", nothing)
    metrics = {"host": "nowhere.invalid", "port": 0}
    status, errors = run("answer", deployment(tmp_path, metrics=metrics))

    assert 2 == status
    assert "cannot listen on 'nowhere.invalid'" in errors
    assert "metrics.host" in errors


def test_multiprocess_metrics_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a catalog is read: one process's page would show the sums of all, or of none."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    status, errors = run("decide", deployment(tmp_path, catalog="tools: 1"))

    assert 2 == status
    assert (
        "metrics: multiprocess mode is not supported; unset PROMETHEUS_MULTIPROC_DIR, each "
        "process serves its own port"
    ) in errors
    assert "catalog.yaml" not in errors


def test_an_unknown_role_is_a_usage_error(tmp_path: Path) -> None:
    """The known ones are listed."""
    status, errors = run("dream", deployment(tmp_path))

    assert 2 == status
    assert "shadow" in errors
