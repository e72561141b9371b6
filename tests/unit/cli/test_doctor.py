"""``turnstream doctor``: every check with its finding, and what to do about it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.cli.test_run import deployment
from turnstream.cli.root import app
from turnstream.stream import topics
from turnstream.stream.topics import Change, Plan, TopicsRefused, WantedTopic

Findings = dict[str, tuple[str, str, str]]

TOPIC = WantedTopic("conversation.turns", 4, 1, {})


def planned(
    monkeypatch: pytest.MonkeyPatch, *changes: Change, error: Exception | None = None
) -> None:
    """Let a cluster differ so from its plan."""

    async def plan(_settings: object) -> Plan:
        if error is not None:
            raise error
        return Plan(changes, topics=10)

    monkeypatch.setattr(topics, "plan", plan)


def examined(config: Path) -> tuple[int, list[dict[str, str]]]:
    """Exit status and findings."""
    result = CliRunner().invoke(app, ["doctor", "-c", str(config), "-o", "json"])
    return result.exit_code, json.loads(result.stdout)


def statuses(findings: list[dict[str, str]]) -> list[tuple[str, str]]:
    """Each check with its status, in order."""
    return [(one["check"], one["status"]) for one in findings]


def test_a_sound_deployment_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 0, every check ok, in the order of need; no remedy where nothing is wrong."""
    planned(monkeypatch)

    status, findings = examined(deployment(tmp_path))

    assert 0 == status
    assert [
        ("configuration", "ok"),
        ("catalog", "ok"),
        ("models", "ok"),
        ("broker", "ok"),
        ("topics", "ok"),
    ] == statuses(findings)
    assert {""} == {one["remedy"] for one in findings}
    assert "by-word-1" in findings[2]["detail"]


def test_a_table_is_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what square brackets say, which are no markup."""
    planned(monkeypatch, error=TopicsRefused("[red]nobody[/red]"))

    result = CliRunner().invoke(
        app, ["doctor", "-c", str(deployment(tmp_path))], env={"COLUMNS": "200"}
    )

    assert 1 == result.exit_code
    assert "[red]nobody[/red]" in result.stdout
    assert "problem" in result.stdout


def test_a_bad_configuration_ends_the_examination(tmp_path: Path) -> None:
    """Nothing else can be looked at."""
    path = tmp_path / "turnstream.yaml"
    path.write_text("partitions: many\n")

    status, findings = examined(path)

    assert 1 == status
    assert [("configuration", "problem")] == statuses(findings)
    assert "turnstream.yaml:1" in findings[0]["detail"]
    assert findings[0]["remedy"]


def test_a_bad_catalog_is_named_and_the_cluster_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models need a catalog; the broker does not."""
    planned(monkeypatch)

    status, findings = examined(deployment(tmp_path, catalog="default_locale: en\ntols: {}\n"))

    assert 1 == status
    assert [
        ("configuration", "ok"),
        ("catalog", "problem"),
        ("broker", "ok"),
        ("topics", "ok"),
    ] == statuses(findings)
    assert "catalog.yaml:2" in findings[1]["detail"]


NO_MODULE = {"kind": "python", "target": "no_such_module:make"}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"deciders": {"by_word": NO_MODULE}}, "deciders.by_word"),
        ({"deciders": {}}, "no decider 'by_word'"),
        (
            {
                "deciders": {
                    "by_word": {"kind": "python", "target": "tests.small_shop:by_word"},
                    "new": NO_MODULE,
                },
                "shadow": {"decider": "new"},
            },
            "deciders.new",
        ),
        ({"shadow": {"catalog": "absent.yaml"}}, "absent.yaml"),
        (
            {"classifiers": {"mine": NO_MODULE}, "classify": {"classifier": "mine"}},
            "classifiers.mine",
        ),
    ],
    ids=["decider", "no decider", "shadow", "shadow's catalog", "classifier"],
)
def test_every_model_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], where: str
) -> None:
    """The live one, the candidate and the classifier, as the roles would make them."""
    planned(monkeypatch)

    status, findings = examined(deployment(tmp_path, **changes))

    assert 1 == status
    assert ("models", "problem") == statuses(findings)[2]
    assert where in findings[2]["detail"]
    assert findings[2]["remedy"]


def test_a_broker_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are then not spoken of."""
    planned(monkeypatch, error=TopicsRefused("no Kafka"))

    status, findings = examined(deployment(tmp_path, kafka={"bootstrap_servers": "k:9092"}))

    assert 1 == status
    assert ("broker", "problem") == statuses(findings)[-1]
    assert "k:9092" in findings[-1]["detail"]
    assert "kafka.bootstrap_servers" in findings[-1]["remedy"]


def test_differing_topics_are_named_with_what_mends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `topics apply` can do, and what only the configuration or new topics can."""
    planned(
        monkeypatch,
        Change("conversation.turns", "partitions", "has 6, wanted 4", TOPIC),
        Change("conversation.control", "create", "4 partitions", TOPIC),
    )

    status, findings = examined(deployment(tmp_path))

    assert 1 == status
    assert [("topics", "problem"), ("topics", "problem")] == statuses(findings)[-2:]
    assert [
        ("conversation.control: create: 4 partitions", "turnstream topics apply"),
        ("conversation.turns: partitions: has 6, wanted 4", findings[-1]["remedy"]),
    ] == [(one["detail"], one["remedy"]) for one in findings[-2:]]
    assert "set `partitions`" in findings[-1]["remedy"]


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    """It is no fault of the broker's."""
    kafka = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_username": "me",
        "sasl_password": "env:NO_SUCH_VARIABLE",
    }

    status, findings = examined(deployment(tmp_path, kafka=kafka))

    assert 1 == status
    assert "NO_SUCH_VARIABLE" in findings[-1]["detail"]
    assert "provide the secret" == findings[-1]["remedy"]
