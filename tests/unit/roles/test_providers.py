"""The deciders of a process: who shares what is known of whose health."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from tests import small_shop
from tests.decisions_service import Service
from tests.unit.calibration.test_calibrated import calibration
from turnstream.calibration import Calibrated
from turnstream.catalog.lint import lint
from turnstream.config import DecideSettings, Settings, ShadowSettings
from turnstream.core.ports import DeciderUnavailable
from turnstream.roles.asking import Effort
from turnstream.roles.deployment import Deployment
from turnstream.roles.providers import candidate_of, closing, effort_of, providers_of
from turnstream.roles.run import RoleName, build_role

DOWN = DeciderUnavailable("down")

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
    found["shop"].failed(DOWN)
    assert {"by_word": 2, "patient": None} == breakers(deployment)


def test_the_candidate_has_settings_and_a_breaker_of_its_own(deployment: Deployment) -> None:
    """Those of the section `shadow`; it is exposed under its configured name."""
    provider = candidate_of(deployment, deployment.candidate())

    assert ("patient", "patient-1") == (provider.name, provider.decider.name)
    provider.failed(DOWN)
    assert {"by_word": None, "patient": 0} == breakers(deployment)
    provider.failed(DOWN)
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


class Holding(small_shop.ByWord):
    """A decider that holds a connection."""

    closed = 0

    async def close(self) -> None:
        """Release it."""
        self.closed += 1


async def test_deciders_that_hold_connections_are_closed_once(deployment: Deployment) -> None:
    """Also behind a calibration, and as the writer of another one's arguments."""
    shared, calibrated, writer = Holding(), Holding(), Holding()
    model = Service().model(deployment.catalog, arguments=writer)
    plain = providers_of(deployment)["shop"]
    found = [
        replace(plain, decider=one)
        for one in (
            shared,
            shared,
            Calibrated(calibrated, calibration()),
            model,
            small_shop.ByWord(),
        )
    ]

    await closing([*found, replace(plain, decider=Calibrated(plain.decider, calibration()))])()

    assert (1, 1, 1) == (shared.closed, calibrated.closed, writer.closed)


@pytest.mark.parametrize("role", ["decide", "shadow"])
def test_the_roles_that_ask_deciders_close_them(deployment: Deployment, role: RoleName) -> None:
    """After their last commit."""
    assert build_role(role, deployment).close is not None


@pytest.mark.parametrize(("unscored", "warned"), [("handoff", 1), ("accept", 0)])
def test_thresholds_without_a_confidence_are_told_at_the_start(
    tmp_path: Path, unscored: str, warned: int
) -> None:
    """An agent model gives none: whatever demands one goes to a person, which must not surprise."""
    path = tmp_path / "catalog.yaml"
    catalog = {
        **small_shop.CATALOG,
        "agents": {"shop": {"description": "S.", "decider": "mine"}},
        "thresholds": {"answer": 0.6, "unscored": unscored},
    }
    path.write_text(yaml.safe_dump(catalog))
    mine = {"kind": "custom", "model": "m", "base_url": "http://127.0.0.1:9/reply"}
    settings = Settings.model_validate({"catalog": path, "deciders": {"mine": mine}})
    with capture_logs() as logs:
        providers_of(Deployment(settings, path))

    advice = [one["advice"] for one in logs if one["event"] == "decider without confidence"]
    assert warned == len(advice)
    assert all("thresholds.answer is 0.6" in one for one in advice)
    found = [one.code for one in lint(path, deciders={"mine"}, unscored={"mine"})]
    assert warned == found.count("unscored_decider")
    assert 0 == [one.code for one in lint(path, deciders={"mine"})].count("unscored_decider")
