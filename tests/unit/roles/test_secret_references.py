"""Which role needs which secret: a start without one is refused, and no role needs another's."""

from typing import Any

import pytest
import yaml

from tests import small_shop
from turnstream.catalog import LoadedCatalog, load_catalog
from turnstream.config import SecretUnavailable, Settings
from turnstream.roles.run import ROLES
from turnstream.roles.secret_references import check_secrets

MODEL = {"kind": "custom", "model": "m", "base_url": "http://127.0.0.1:1/reply"}

BINDING = {"kind": "http", "url": "http://127.0.0.1:1/x", "headers": {"X-Key": "env:NO_TOOL_KEY"}}

PYTHON = {"kind": "python", "target": "tests.small_shop:by_word"}

SECTIONS: dict[str, Any] = {
    "deciders": {
        "live": {
            "kind": "decisions",
            "model": "m",
            "base_url": "http://127.0.0.1:1",
            "api_key": "env:NO_LIVE_KEY",
            "arguments_by": "writer",
        },
        "writer": {**MODEL, "api_key": "env:NO_WRITER_KEY"},
        "live2": {**MODEL, "api_key": "env:NO_ONE_NEEDS_THIS"},
        "live.old": {**MODEL, "api_key": "env:NOR_THIS"},
        "next": {**MODEL, "api_key": "env:NO_SHADOW_KEY"},
    },
    "shadow": {"decider": "next"},
    "classifiers": {"mine": {**PYTHON, "options": {"keys": ["env:NO_CLASSIFIER_KEY"]}}},
    "classify": {"classifier": "mine"},
}

NEEDED = {
    "decide": {"NO_LIVE_KEY", "NO_WRITER_KEY"},
    "shadow": {"NO_SHADOW_KEY"},
    "classify": {"NO_CLASSIFIER_KEY"},
    "execute": {"NO_TOOL_KEY"},
    "answer": set(),
}


@pytest.fixture
def loaded(tmp_path: Any) -> LoadedCatalog:
    """The small shop, its tool behind HTTP."""
    path = tmp_path / "catalog.yaml"
    tool = {**small_shop.CATALOG["tools"]["get_order"], "binding": BINDING}
    agents = {"shop": {"description": "S.", "decider": "live"}}
    catalog = {**small_shop.CATALOG, "tools": {"get_order": tool}, "agents": agents}
    path.write_text(yaml.safe_dump(catalog))
    return load_catalog(path)


def missing(role: Any, settings: Settings, loaded: LoadedCatalog) -> set[str]:
    """The variables that a start is refused for."""
    try:
        check_secrets(role, settings=settings, catalog=loaded.catalog)
    except SecretUnavailable as error:
        return {line.rpartition(" ")[2] for line in str(error).splitlines()}
    return set()


@pytest.mark.parametrize("role", ROLES)
def test_a_role_needs_its_own(role: str, loaded: LoadedCatalog) -> None:
    """The writer of another's arguments among them, and no decider that is not asked."""
    assert NEEDED[role] == missing(role, Settings.model_validate(SECTIONS), loaded)


@pytest.mark.parametrize("role", ROLES)
def test_all_need_the_broker_and_the_registry(role: str, loaded: LoadedCatalog) -> None:
    """Whatever else they do."""
    common = {
        "kafka": {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_username": "me",
            "sasl_password": "env:NO_PASSWORD",
        },
        "registry": {"url": "http://127.0.0.1:1", "auth": "env:NO_REGISTRY_AUTH"},
    }
    settings = Settings.model_validate({**SECTIONS, **common})

    assert {"NO_PASSWORD", "NO_REGISTRY_AUTH"} | NEEDED[role] == missing(role, settings, loaded)


def test_what_is_there_is_no_fault(loaded: LoadedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all of its own set, a role may start."""
    for name in NEEDED["decide"]:
        monkeypatch.setenv(name, "a-value")

    assert set() == missing("decide", Settings.model_validate(SECTIONS), loaded)
