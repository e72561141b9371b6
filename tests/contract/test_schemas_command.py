"""The command that checks the schemas: its output and exit status."""

import orjson
import pytest
from typer.testing import CliRunner

from turnstream.cli.schemas import app
from turnstream.stream import compatibility
from turnstream.stream.compatibility import Finding
from turnstream.stream.contracts import UnusableSchema


def test_the_packaged_schemas_pass() -> None:
    """What is shipped has no findings, and the command says how much it looked at."""
    result = CliRunner().invoke(app, ["check"])

    assert result.exit_code == 0
    assert "12 subjects" in result.output


def test_findings_end_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding is written with file and field, as text and as JSON."""
    finding = Finding("s-value/v2.avsc", "source.topic", "cannot read v1: long")
    monkeypatch.setattr(compatibility, "check_packaged", lambda: (finding,))

    text = CliRunner().invoke(app, ["check"])
    json = CliRunner().invoke(app, ["check", "-o", "json"])

    assert (1, 1) == (text.exit_code, json.exit_code)
    assert "s-value/v2.avsc" in text.output
    assert [finding._asdict()] == orjson.loads(json.output)


def test_an_unreadable_schema_ends_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no schema stops the check with its name."""

    def fail() -> tuple[Finding, ...]:
        raise UnusableSchema("s-value/v1.avsc: not an Avro schema")

    monkeypatch.setattr(compatibility, "check_packaged", fail)

    result = CliRunner().invoke(app, ["check"])

    assert result.exit_code == 2
    assert "s-value/v1.avsc" in result.output
