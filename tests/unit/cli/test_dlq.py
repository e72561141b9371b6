"""``turnstream dlq``: what cannot be meant is refused before anything is connected to."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from turnstream.cli import dlq
from turnstream.cli.letter_filters import FilterUnusable, selection
from turnstream.cli.root import app
from turnstream.config import Settings, TopicSettings
from turnstream.stream.deadletter import Place

NOW = 1_800_000_000_000
HOUR = 3_600_000
SETTINGS = Settings(topics=TopicSettings(prefix="s.", turns="chat"))


def run(*arguments: str, folder: Path) -> tuple[int, str]:
    """Exit status and standard error of a command on a cluster that is not there."""
    config = folder / "turnstream.yaml"
    config.write_text("kafka: {bootstrap_servers: '127.0.0.1:1'}\n")
    result = CliRunner().invoke(app, ["dlq", *arguments, "-c", str(config)])
    assert "" == result.stdout
    assert "Traceback" not in result.stderr
    return result.exit_code, result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("replay", "--yes"), "name letters, give a filter, or --all"),
        (("discard", "--yes", "--because", "noise"), "name letters, give a filter, or --all"),
        (("discard", "--all", "--yes"), "--because is missing"),
        (("discard", "--all", "--yes", "--because", " "), "--because is missing"),
        (("replay", "--all", "--because", "x" * 501), "--because has 501 characters"),
        (("list", "--reason", "bad"), "expected one of missing_key, "),
        (("replay", "--all", "--for", "bad"), "--for 'bad': expected one of decide, execute, "),
        (("list", "--topic", "bad"), "expected one of conversation.actions, "),
        (("list", "--since", "bad"), "--since 'bad': expected a time as"),
        (("show", "bad"), "'bad' is no letter: expected topic/partition/offset"),
        (("show", "a/b/c"), "'a/b/c' is no letter"),
        (("replay", "a/0/-1"), "'a/0/-1' is no letter"),
        (("list",), "no Kafka at 127.0.0.1:1 (kafka.bootstrap_servers): conn"),
    ],
)
def test_a_command_that_cannot_run_says_why(
    arguments: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    """It ends with 2."""
    status, errors = run(*arguments, folder=tmp_path)

    assert 2 == status
    assert told in re.sub(r"\s+", " ", errors)


def test_a_user_without_a_name_has_to_give_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The audit says who acted."""

    def nobody() -> str:
        raise KeyError

    monkeypatch.setattr("getpass.getuser", nobody)

    status, errors = run("replay", "--all", folder=tmp_path)

    assert 2 == status
    assert "say with --actor who acts" in errors


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({"letters": ["a.dlq/0/7"]}, "places", {Place("a.dlq", 0, 7)}),
        ({"topics": ["conversation.turns"]}, "sources", {"chat"}),
        ({"topics": ["chat", "s.tool.results.dlq"]}, "sources", {"chat", "s.tool.results"}),
        ({"reasons": ["malformed", "foreign"]}, "reasons", {"malformed", "foreign"}),
        ({"conversation": "c-é"}, "conversation", "c-é".encode()),
        ({"since": "2h"}, "since", NOW - 2 * HOUR),
        ({"until": "90s"}, "until", NOW - 90_000),
        ({"since": "2027-01-15T08:00"}, "since", NOW),
        ({"since": "2027-01-15T09:00+01:00"}, "since", NOW),
        ({"since": "2027-01-15"}, "since", NOW - 8 * HOUR),
    ],
)
def test_filters_are_read(given: dict[str, Any], field: str, expected: object) -> None:
    """Topics by either name, times as such or as how long ago, UTC unless they say otherwise."""
    assert expected == getattr(selection(SETTINGS, now=NOW, **given), field)


def test_topics_that_hold_no_events_have_no_letters() -> None:
    """The audit's own topic, for one."""
    with pytest.raises(FilterUnusable, match=r"turnstream\.audit"):
        selection(SETTINGS, topics=["turnstream.audit"], now=NOW)


def test_every_exit_status_is_documented() -> None:
    """In each command's help, beside what the module says."""
    for command in ("list", "show", "replay", "discard"):
        text = CliRunner().invoke(app, ["dlq", command, "--help"]).stdout
        assert "Ends with 0" in re.sub(r"\s+", " ", text)
    assert "130 interrupted" in (dlq.__doc__ or "")
