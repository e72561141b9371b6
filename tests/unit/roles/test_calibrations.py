"""A calibration is configured for a decider, and found where the configuration is."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests import small_shop
from tests.unit.calibration.test_calibrated import calibration
from turnstream.calibration import CalibrationRefused
from turnstream.cli.root import app
from turnstream.config import ConfigurationError, load_settings
from turnstream.roles.deployment import Deployment
from turnstream.roles.providers import candidate_of, providers_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small shop with a candidate, and calibrations for both deciders."""
    path = tmp_path / "catalog.yaml"
    path.write_text(yaml.safe_dump(small_shop.CATALOG), encoding="utf-8")
    version = made(tmp_path, {}).loaded.decision_version
    for name in ("by-word", "patient"):
        made_for = {"decider": f"{name}-1", "decision_version": version}
        written = calibration(made_for=made_for).model_dump_json()
        (tmp_path / f"{name}.json").write_text(written, encoding="utf-8")
    return tmp_path


def made(folder: Path, sections: dict[str, object]) -> Deployment:
    """The deployment of a configuration file in the folder."""
    deciders = {
        name: {"kind": "python", "target": f"tests.small_shop:{name}"}
        for name in ("by_word", "patient")
    }
    config = folder / "turnstream.yaml"
    config.write_text(
        yaml.safe_dump({"catalog": "catalog.yaml", "deciders": deciders, **sections}),
        encoding="utf-8",
    )
    settings = load_settings(config)
    return Deployment(settings, settings.catalog)


def test_the_live_side_and_the_candidate_have_calibrations_of_their_own(folder: Path) -> None:
    """Each for its decider; without one a decider is as it is."""
    deployment = made(
        folder,
        {
            "decide": {"calibrations": {"by_word": "by-word.json"}},
            "shadow": {"decider": "patient", "calibration": "patient.json"},
        },
    )

    live = providers_of(deployment)["shop"].decider.name
    candidate = candidate_of(deployment, deployment.candidate()).decider.name

    assert ("by-word-1", "patient-1") == (live.partition("+")[0], candidate.partition("+")[0])
    assert "+" in live
    assert "+" in candidate
    assert "by-word-1" == providers_of(made(folder, {}))["shop"].decider.name


def test_a_calibration_of_another_decider_is_refused(folder: Path) -> None:
    """Whoever configured it is told of both."""
    deployment = made(folder, {"shadow": {"decider": "patient", "calibration": "by-word.json"}})

    with pytest.raises(CalibrationRefused, match="decider 'by-word-1', and here it is 'patient-1'"):
        candidate_of(deployment, deployment.candidate())


def test_a_calibration_of_no_decider_is_a_fault_of_the_configuration(folder: Path) -> None:
    """The known ones are named."""
    with pytest.raises(ConfigurationError, match=r"one of deciders \(by_word, .*, got 'nobody'"):
        made(folder, {"decide": {"calibrations": {"nobody": "by-word.json"}}})


def test_the_doctor_looks_at_calibrations(folder: Path) -> None:
    """They fail where the start would."""
    made(
        folder,
        {
            "kafka": {"bootstrap_servers": "127.0.0.1:1"},
            "shadow": {"decider": "by_word", "calibration": "patient.json"},
        },
    )

    config = str(folder / "turnstream.yaml")
    result = CliRunner().invoke(app, ["doctor", "-c", config, "-o", "json"])

    assert "decider 'patient-1', and here it is 'by-word-1'" in result.stdout
