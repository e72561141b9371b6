"""The section on personal data, tenant by tenant."""

from pathlib import Path
from typing import get_args

import pytest

from turnstream.config import ConfigurationError, load_settings
from turnstream.config.privacy import NumbersOfCountry, PersonalDataKind
from turnstream.privacy import COUNTRIES, KINDS, Detector


def _written(folder: Path, text: str) -> Path:
    path = folder / "turnstream.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_is_redacted_unless_asked_for(tmp_path: Path) -> None:
    """Without the section the policy is off for every tenant."""
    personal_data = load_settings(_written(tmp_path, "")).personal_data

    assert ("off", "off") == (personal_data.of(None).policy, personal_data.of("acme").policy)


def test_each_tenant_has_its_own_policy(tmp_path: Path) -> None:
    """A tenant that is not named has the default, one that is named nothing of it."""
    path = _written(
        tmp_path,
        """
        personal_data:
          default: {policy: before_store, region: FR}
          tenants:
            acme: {policy: before_store, detectors: [email, name], name_fields: [customer_name]}
            plain: {policy: "off"}
        """,
    )

    personal_data = load_settings(path).personal_data

    assert ("before_store", "FR") == (personal_data.of(None).policy, personal_data.of("b").region)
    acme = personal_data.of("acme")
    assert (("email", "name"), ("customer_name",), None) == (
        acme.detectors,
        acme.name_fields,
        acme.region,
    )
    assert "off" == personal_data.of("plain").policy


def test_the_default_can_be_set_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every key can."""
    monkeypatch.setenv("TURNSTREAM_PERSONAL_DATA__DEFAULT__POLICY", "before_store")

    assert "before_store" == load_settings(_written(tmp_path, "")).personal_data.of("a").policy


@pytest.mark.parametrize(
    ("tenant", "message"),
    [
        ("policy: later", "before_store"),
        ("detectors: [shoe_size]", "national_number"),
        ("detectors: [email, email]", "expected each once"),
        ("{policy: before_store, detectors: []}", "needs detectors"),
        ("region: fr", "region"),
        ("national_numbers: [xx]", "national_numbers"),
    ],
)
def test_what_would_protect_nothing_is_refused(tmp_path: Path, tenant: str, message: str) -> None:
    """A policy that is misspelt must not pass for one that is off."""
    written = tenant if tenant.startswith("{") else "{" + tenant + "}"
    path = _written(tmp_path, f"personal_data: {{tenants: {{acme: {written}}}}}\n")

    with pytest.raises(ConfigurationError, match=message):
        load_settings(path)


def test_the_section_knows_what_the_detector_knows() -> None:
    """All of it is looked for by default, and a detector takes it as it is written."""
    assert (KINDS, COUNTRIES) == (get_args(PersonalDataKind), get_args(NumbersOfCountry))
    Detector(KINDS, countries=COUNTRIES)
