"""Each role built from the demo's deployment, as a process would build it."""

import ast
import inspect
import types
from pathlib import Path
from typing import Any

import pytest

import turnstream.demo
from turnstream.config import ClassifySettings, PythonSettings, load_settings
from turnstream.roles import alterations, answer, classify, execute, rejections, undertaking
from turnstream.roles.deployment import Deployment, DeploymentError
from turnstream.tools import BindingError


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """The demo's deployment, its shop at an address."""
    monkeypatch.setenv("SHOP_URL", "http://127.0.0.1:9")
    settings = load_settings(Path(turnstream.demo.__file__).parent / "turnstream.yaml")
    return Deployment(settings, settings.catalog)


@pytest.mark.parametrize("module", [execute, answer, classify], ids=lambda one: one.__name__)
async def test_a_role_is_built(deployment: Deployment, module: types.ModuleType) -> None:
    """A role has its name, its topics, and a format for its state."""
    role = module.build(deployment)

    assert module.__name__ == f"turnstream.roles.{role.name}"
    assert (module.SOURCES, module.WRITES) == (role.sources, role.writes)
    assert set(role.sources).isdisjoint(role.writes)
    if role.close is not None:
        await role.close()


def test_without_its_address_execute_does_not_start(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base URL that is not set stops the start and is named."""
    monkeypatch.delenv("SHOP_URL")

    with pytest.raises(BindingError, match=r"tools\.\w+\.binding.*SHOP_URL"):
        execute.build(deployment)


def test_a_classifier_that_cannot_classify_stops_the_start(deployment: Deployment) -> None:
    """Else every label would say that it failed, and name no model."""
    mine = PythonSettings(kind="python", target="tests.small_shop:by_word")
    settings = deployment.settings.model_copy(
        update={"classifiers": {"mine": mine}, "classify": ClassifySettings(classifier="mine")}
    )

    with pytest.raises(DeploymentError, match=r"classifiers\.mine\.target.*no classify\(\)"):
        classify.build(Deployment(settings, settings.catalog))


@pytest.mark.parametrize(
    "module",
    [undertaking, answer, classify, alterations, rejections],
    ids=lambda one: one.__name__,
)
def test_no_log_line_holds_a_customers_data(module: types.ModuleType) -> None:
    """What a role logs is its own words, codes, numbers and kinds of error, nothing of an event."""
    source: Any = ast.parse(inspect.getsource(module))
    texts = {"text", "arguments_json", "result_json", "message", "error_message", "title"}
    logged = [
        node
        for node in ast.walk(source)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "log"
    ]

    assert logged
    for call in logged:
        names = {part.attr for part in ast.walk(call) if isinstance(part, ast.Attribute)}
        assert names.isdisjoint(texts)
