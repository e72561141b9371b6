"""Agent models of a deployment: configured, made, or refused with the key to change."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.roles.test_deployment import deployment
from turnstream.config import ConfigurationError, load_settings
from turnstream.models.agent_model import AgentModel
from turnstream.roles.deployment import DeploymentError

SECTIONS: list[dict[str, Any]] = [
    {"kind": "openai_chat", "model": "gpt-4o", "api_key": "env:KEY"},
    {"kind": "openai_responses", "model": "gpt-5", "api_key": "env:KEY"},
    {
        "kind": "azure_openai",
        "model": "dep",
        "api_key": "env:KEY",
        "base_url": "https://me.openai.azure.com/openai/v1",
    },
    {"kind": "vllm", "model": "q", "base_url": "http://127.0.0.1:8000/v1"},
    {"kind": "anthropic", "model": "claude", "api_key": "env:KEY"},
    {"kind": "gemini", "model": "gemini", "api_key": "env:KEY"},
    {"kind": "bedrock", "model": "nova", "region": "eu-west-1", "native_tools": False},
    {"kind": "custom", "model": "mine", "base_url": "http://127.0.0.1:8000/reply"},
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda one: one["kind"])
def test_an_agent_may_be_decided_by_an_agent_model(tmp_path: Path, section: dict[str, Any]) -> None:
    """Nothing is connected to and no key is read when it is made."""
    made = deployment(tmp_path, deciders={"by_word": section}).deciders()["shop"]

    assert isinstance(made, AgentModel)
    assert made.name.startswith(f"agent-2:{section['kind']}/")


def test_region_that_is_none_stops_the_start(tmp_path: Path) -> None:
    """The message names the section."""
    section = {"kind": "bedrock", "model": "m", "region": "eu-nowhere-7", "native_tools": False}

    with pytest.raises(DeploymentError, match=r"deciders\.by_word: region: .*eu-nowhere-7"):
        deployment(tmp_path, deciders={"by_word": section}).deciders()


def test_unknown_parameter_is_told_by_its_line(tmp_path: Path) -> None:
    """The file, the line, and what is known there."""
    path = tmp_path / "turnstream.yaml"
    path.write_text(
        "deciders:\n"
        "  gpt:\n"
        "    kind: openai_chat\n"
        "    model: gpt-4o\n"
        "    api_key: env:KEY\n"
        "    settings:\n"
        "      top_k: 3\n",
        encoding="utf-8",
    )

    with pytest.raises(ConfigurationError, match=r"turnstream\.yaml:7: .*top_k: unknown key"):
        load_settings(path)


def test_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """A secret is given by reference."""
    path = tmp_path / "turnstream.yaml"
    path.write_text(
        "deciders: {gpt: {kind: openai_chat, model: m, api_key: sk-secret-1}}", encoding="utf-8"
    )

    with pytest.raises(ConfigurationError, match="env:NAME") as raised:
        load_settings(path)
    assert "sk-secret-1" not in str(raised.value)
