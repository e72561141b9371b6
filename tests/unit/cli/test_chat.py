"""`turnstream chat`: what it refuses before anything is started."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.unit.cli.test_run import deployment
from turnstream.cli.root import app


@pytest.mark.parametrize(
    ("claims", "fault"),
    [
        ('{"foo": 1}', "foo: unknown key; expected one of subject_id, permissions, values"),
        ('{"subject_id": 1}', "subject_id: Input should be a valid string"),
        ("nope", "expected JSON as"),
    ],
)
def test_wrong_claims_are_explained(claims: str, fault: str) -> None:
    """Status 2, and the key that is wrong with what it could be."""
    result = CliRunner().invoke(app, ["chat", "--claims", claims])

    assert 2 == result.exit_code
    assert f"--claims: {fault}" in result.stderr


def test_a_channel_that_the_catalog_has_not_is_refused(tmp_path: Path) -> None:
    """Turns on it would be put aside one by one; those that there are are listed."""
    config = deployment(tmp_path)

    result = CliRunner().invoke(app, ["chat", "-c", str(config), "--channel", "nope"])

    assert 2 == result.exit_code
    assert "no channel 'nope'; its channels are web" in result.stderr


def test_the_demo_has_channels_too() -> None:
    """Known before anything of it is started."""
    result = CliRunner().invoke(app, ["chat", "--demo", "--channel", "nope"])

    assert 2 == result.exit_code
    assert "its channels are console, web, api-partner, email" in result.stderr
