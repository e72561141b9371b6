"""Tools that a decider's model cannot be told of stop the start."""

from pathlib import Path
from typing import Any

import pytest

from tests import small_shop
from tests.unit.roles.test_deployment import deployment
from turnstream.catalog import CatalogError, load_catalog
from turnstream.config import ConnectorSettings, Settings
from turnstream.roles.surfaces import check_surfaces, wires_of

SECTIONS: dict[str, dict[str, Any]] = {
    "chat": {"kind": "openai_chat", "model": "m", "api_key": "env:KEY"},
    "loose": {"kind": "openai_chat", "model": "m", "api_key": "env:KEY", "strict_tools": False},
    "anthropic": {"kind": "anthropic", "model": "m", "api_key": "env:KEY"},
    "gemini": {"kind": "gemini", "model": "m", "api_key": "env:KEY"},
    "vllm": {"kind": "vllm", "model": "m", "base_url": "http://127.0.0.1:1/v1"},
    "react": {"kind": "custom", "model": "m", "base_url": "http://127.0.0.1:1/chat"},
}


def section(name: str) -> ConnectorSettings:
    """The section of a decider."""
    found = Settings.model_validate({"deciders": {"d": SECTIONS[name]}}).deciders["d"]
    assert isinstance(found, ConnectorSettings)
    return found


def catalog(extra: dict[str, Any] | None = None, **schema: Any) -> dict[str, Any]:
    """The small shop; its tool takes one more argument, its agents have something extra."""
    tool = small_shop.CATALOG["tools"]["get_order"]
    properties = {**tool["input_schema"]["properties"], "words": schema} if schema else None
    if properties is not None:
        changed = {
            **tool,
            "input_schema": {**tool["input_schema"], "properties": properties},
            "arguments": {**tool["arguments"], "words": {"provenance": ["model"]}},
        }
        tool = changed
    agent = {**small_shop.CATALOG["agents"]["shop"], "extra": extra or {}}
    return {**small_shop.CATALOG, "tools": {"get_order": tool}, "agents": {"shop": agent}}


UNTELLABLE: dict[str, Any] = {"type": "object", "patternProperties": {"^a": {"type": "string"}}}


def test_the_fault_names_file_line_path_and_decider(tmp_path: Path) -> None:
    """Before anything is connected to, or any library is looked for."""
    made = deployment(tmp_path, catalog(**UNTELLABLE), deciders={"by_word": SECTIONS["chat"]})

    with pytest.raises(CatalogError) as raised:
        made.deciders()

    (fault,) = raised.value.faults
    assert str(made.catalog_path) == fault.file
    assert fault.line is not None
    assert fault.path.startswith("tools.get_order.input_schema.properties.words")
    assert "patternProperties" in fault.message
    assert fault.message.endswith("(deciders.by_word; strict_tools: false asks for less)")
    line = made.catalog_path.read_text().splitlines()[fault.line - 1]
    assert fault.path.rsplit(".", 1)[-1] in line


def test_the_shadows_decider_is_looked_at_too(tmp_path: Path) -> None:
    """It decides for every agent of its catalog."""
    made = deployment(
        tmp_path,
        catalog(**UNTELLABLE),
        deciders={
            "by_word": {"kind": "python", "target": "tests.small_shop:by_word"},
            "next": SECTIONS["chat"],
        },
        shadow={"decider": "next"},
    )

    with pytest.raises(
        CatalogError, match=r"catalog\.yaml:\d+: tools\.get_order\..*deciders\.next"
    ):
        made.candidate().calibrated("next", None)


@pytest.mark.parametrize(
    ("name", "native_tools", "surfaces"),
    [
        ("chat", None, ["openai"]),
        ("chat", True, ["openai"]),
        ("chat", False, ["prompt"]),
        ("anthropic", None, ["anthropic"]),
        ("gemini", None, ["gemini"]),
        ("vllm", None, ["openai", "prompt"]),
        ("vllm", False, ["prompt"]),
        ("react", None, ["prompt"]),
        ("react", True, ["openai", "prompt"]),
    ],
)
def test_every_way_of_telling_is_looked_at(
    tmp_path: Path, name: str, native_tools: bool | None, surfaces: list[str]
) -> None:
    """The provider's, the instructions' text, or both where a server may refuse tools."""
    path = tmp_path / "catalog.yaml"
    extra = {} if native_tools is None else {"native_tools": native_tools}
    loaded = deployment(tmp_path, catalog(extra)).loaded

    found = [wire.surface for wire in wires_of(loaded.catalog.agents.values(), section(name))]

    assert surfaces == found
    assert path == loaded.path


@pytest.mark.parametrize("name", SECTIONS)
def test_what_can_be_told_passes(tmp_path: Path, name: str) -> None:
    """On every surface."""
    loaded = load_catalog(deployment(tmp_path, catalog()).catalog_path)

    agents = loaded.catalog.agents.values()
    check_surfaces(loaded, section(name), decider=name, agents=agents)


def two_agents(**other: Any) -> dict[str, Any]:
    """A catalog with a tool that no provider can be told of natively, and an agent more."""
    content = catalog(**UNTELLABLE)
    shop = {**content["agents"]["shop"], "extra": {"native_tools": False}}
    return {**content, "agents": {"shop": shop, "other": {"description": "O.", **other}}}


def test_how_another_deciders_agents_are_told_is_no_fault(tmp_path: Path) -> None:
    """An agent that wants native tools does not stop a model that describes them in its prompt."""
    content = two_agents(decider="python", extra={"native_tools": True})
    made = deployment(
        tmp_path,
        content,
        deciders={
            "by_word": SECTIONS["chat"],
            "python": {"kind": "python", "target": "tests.small_shop:by_word"},
        },
    )

    assert {"shop", "other"} == made.deciders().keys()


def test_each_agent_of_a_decider_is_looked_at(tmp_path: Path) -> None:
    """One that is told in the prompt does not excuse one that is not."""
    content = two_agents(decider="by_word", extra={"native_tools": True})
    made = deployment(tmp_path, content, deciders={"by_word": SECTIONS["chat"]})

    with pytest.raises(CatalogError, match=r"deciders\.by_word"):
        made.deciders()


def test_a_shadows_decider_decides_for_all_agents(tmp_path: Path) -> None:
    """Also for those that have another one in live traffic."""
    content = two_agents(decider="python", extra={"native_tools": True})
    made = deployment(
        tmp_path,
        content,
        deciders={
            "by_word": SECTIONS["chat"],
            "python": {"kind": "python", "target": "tests.small_shop:by_word"},
        },
        shadow={"decider": "by_word"},
    )

    with pytest.raises(CatalogError, match=r"deciders\.by_word"):
        made.candidate().calibrated("by_word", None)


def test_who_writes_arguments_is_told_as_the_agents_of_the_decision_model(tmp_path: Path) -> None:
    """A decider inside another one serves the same agents."""
    content = two_agents(decider="python", extra={"native_tools": True})
    decisions = {
        "kind": "decisions",
        "base_url": "http://127.0.0.1:1",
        "model": "m",
        "arguments_by": "chat",
    }
    deciders = {
        "by_word": decisions,
        "chat": SECTIONS["chat"],
        "python": {"kind": "python", "target": "tests.small_shop:by_word"},
    }
    made = deployment(tmp_path, content, deciders=deciders)

    assert {"shop", "other"} == made.deciders().keys()
