"""The deciders of a process: who shares what is known of whose health."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import small_shop
from turnstream.config import DecideSettings, Settings, ShadowSettings
from turnstream.roles.asking import Effort
from turnstream.roles.deployment import Deployment
from turnstream.roles.providers import candidate_of, effort_of, providers_of

AGENTS = {name: {"description": f"The {name}.", "decider": "by_word"} for name in ("shop", "desk")}


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Two agents with one decider, and a candidate."""
    path = tmp_path / "catalog.yaml"
    path.write_text(yaml.safe_dump({**small_shop.CATALOG, "agents": AGENTS}))
    sections: dict[str, Any] = {
        "deciders": {
            name: {"kind": "python", "target": f"tests.small_shop:{name}"}
            for name in ("by_word", "patient")
        },
        "decide": {"decider_breaker_failures": 1},
        "shadow": {"decider": "patient", "decider_breaker_failures": 2},
    }
    return Deployment(Settings.model_validate({"catalog": path, **sections}), path)


def breakers(deployment: Deployment) -> dict[str, float | None]:
    """The exposed state of each decider's breaker."""
    return {
        name: deployment.registry.get_sample_value(
            "turnstream_decider_breaker_state", {"decider": name}
        )
        for name in ("by_word", "patient")
    }


def test_agents_with_the_same_decider_know_the_same_of_it(deployment: Deployment) -> None:
    """What one has found out spares the other its attempts."""
    found = providers_of(deployment)

    assert found["shop"] is found["desk"]
    assert "by_word" == found["shop"].name
    assert {"by_word": 0, "patient": None} == breakers(deployment)
    found["shop"].failed()
    assert {"by_word": 2, "patient": None} == breakers(deployment)


def test_the_candidate_has_settings_and_a_breaker_of_its_own(deployment: Deployment) -> None:
    """Those of the section `shadow`; it is exposed under its configured name."""
    provider = candidate_of(deployment, deployment.candidate())

    assert ("patient", "patient-1") == (provider.name, provider.decider.name)
    provider.failed()
    assert {"by_word": None, "patient": 0} == breakers(deployment)
    provider.failed()
    assert {"by_word": None, "patient": 2} == breakers(deployment)


@pytest.mark.parametrize("section", [DecideSettings, ShadowSettings])
def test_how_hard_a_role_tries_is_configured(
    section: type[DecideSettings] | type[ShadowSettings],
) -> None:
    """Alike for the live side and the candidate; each has the same defaults."""
    settings = section(
        decider_attempts=4,
        decider_timeout_seconds=1,
        decider_backoff_seconds=2,
        decider_backoff_max_seconds=3,
        decider_patience_seconds=5,
    )

    assert Effort(attempts=4, timeout=1, backoff=2, backoff_max=3, patience=5) == effort_of(
        settings
    )
    assert effort_of(DecideSettings()) == effort_of(section())
