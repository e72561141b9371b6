"""Decision models of a deployment: configured, made, or refused with the key to change."""

from pathlib import Path
from typing import Any

import pytest

from tests import small_shop
from tests.unit.roles.test_deployment import deployment
from turnstream.config import ConfigurationError, DecisionsSettings, load_settings
from turnstream.models.decisions_api import DecisionModel
from turnstream.roles.deployment import DeploymentError

SECTION: dict[str, Any] = {
    "kind": "decisions",
    "base_url": "https://decisions.example.com",
    "model": "acme/decider-1",
    "api_key": "env:DECISIONS_KEY",
}


def test_an_agent_may_be_decided_by_a_decision_model(tmp_path: Path) -> None:
    """Nothing is connected to and no key is read when it is made."""
    made = deployment(tmp_path, deciders={"by_word": SECTION}).deciders()["shop"]

    assert isinstance(made, DecisionModel)
    assert made.name.startswith("decisions-1:acme/decider-1@")


def test_its_arguments_may_be_written_by_another_decider(tmp_path: Path) -> None:
    """By its name in the configuration."""
    writer = {"kind": "python", "target": "tests.small_shop:by_word"}
    made = deployment(
        tmp_path,
        deciders={"by_word": {**SECTION, "arguments_by": "writer"}, "writer": writer},
    ).deciders()["shop"]

    assert isinstance(made, DecisionModel)
    assert isinstance(made._arguments, small_shop.ByWord)


def test_too_many_tools_stop_the_start(tmp_path: Path) -> None:
    """The message names the section and what may be done."""
    tool = small_shop.CATALOG["tools"]["get_order"]
    many = {f"tool_{at}": {**tool, "answer": None} for at in range(260)}
    catalog = {**small_shop.CATALOG, "tools": {**small_shop.CATALOG["tools"], **many}}

    with pytest.raises(DeploymentError, match=r"deciders\.by_word: 261 tools are more than"):
        deployment(tmp_path, catalog, deciders={"by_word": SECTION}).deciders()


def configured(tmp_path: Path, text: str) -> DecisionsSettings:
    """The section of the decider `d`."""
    path = tmp_path / "turnstream.yaml"
    path.write_text(text, encoding="utf-8")
    found = load_settings(path).deciders["d"]
    assert isinstance(found, DecisionsSettings)
    return found


BEGIN = "deciders:\n  d:\n    kind: decisions\n    model: m\n"


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    """Also beside single criteria."""
    found = configured(
        tmp_path, BEGIN + "    base_url: http://127.0.0.1:1/proxy\n    criteria: {ask: Ask them.}\n"
    )

    assert "Ask them." == found.criteria.ask
    assert DecisionsSettings.model_validate(SECTION).criteria.answer == found.criteria.answer
    assert (0, "provider", None) == (
        found.merge_steps_up_to,
        found.confidence,
        found.arguments_by,
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("base_url: decisions.example.com", "base_url"),
        ("base_url: https://user:pass@decisions.example.com", "base_url"),
        ("base_url: 'https://d.example.com?key=1'", "base_url"),
        ("{**}", "base_url"),
        ("base_url: http://d\n    api_key: sk-123", "api_key"),
        ("base_url: http://d\n    criteria: {tool: ''}", "criteria.tool"),
        ("base_url: http://d\n    criteria: {handoff: no}", "criteria.handoff"),
        ("base_url: http://d\n    temperature: 0", "temperature"),
        ("base_url: http://d\n    timeout_seconds: 0", "timeout_seconds"),
        ("base_url: http://d\n    arguments_by: d", r"deciders\.d\.arguments_by: expected one of"),
        ("base_url: http://d\n    arguments_by: x", r"deciders\.d\.arguments_by: expected one of"),
        (
            "base_url: http://d\n    arguments_by: catalog_rules",
            r"deciders\.d\.arguments_by: expected one of",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, line: str, message: str) -> None:
    """At the start, by its key; a secret is not repeated."""
    with pytest.raises(ConfigurationError, match=message) as raised:
        configured(tmp_path, BEGIN + ("" if line == "{**}" else f"    {line}\n"))

    assert "sk-123" not in str(raised.value)
