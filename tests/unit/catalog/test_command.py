"""`turnstream catalog`: what it shows and how it ends."""

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from tests.unit.catalog.small import DEMO, SMALL, with_change
from turnstream.cli.catalog import app

Write = Callable[[str], Path]


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and standard output of `turnstream catalog`."""
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout


def test_check_ends_with_0_when_only_advice_is_left(write: Write) -> None:
    """Advice of severity info is shown and does not fail a build."""
    path = write(with_change("effect: read", "effect: write"))

    code, output = run("check", str(path))

    assert code == 0
    assert f"{path}: 0 error, 0 warning, 1 info" in output


def test_check_ends_with_1_on_findings_and_writes_json(write: Write) -> None:
    """A warning fails a build; JSON output holds every finding in full."""
    path = write(with_change("method: GET", "method: PUT"))

    code, output = run("check", str(path), "-o", "json")

    assert code == 1
    assert json.loads(output) == [
        {
            "severity": "warning",
            "code": "read_that_writes",
            "file": str(path),
            "line": path.read_text(encoding="utf-8").split("method: PUT")[0].count("\n") + 1,
            "path": "tools.find_loan.binding.method",
            "message": "effect is read, but the method is PUT: does it change something?",
        }
    ]


def test_check_ends_with_2_when_it_cannot_run(tmp_path: Path) -> None:
    """An absent catalog and a broken configuration are no findings."""
    config = tmp_path / "turnstream.yaml"
    config.write_text("nope: 1\n", encoding="utf-8")

    assert run("check", str(tmp_path / "none.yaml"))[0] == 2
    assert run("check", "--config", str(config))[0] == 2


def test_the_catalog_of_the_configuration_is_the_default(tmp_path: Path, write: Write) -> None:
    """Without a path the configuration says which catalog is meant."""
    write(SMALL)
    config = tmp_path / "turnstream.yaml"
    config.write_text("catalog: catalog.yaml\n", encoding="utf-8")

    assert run("check", "-c", str(config))[0] == 0


def test_deciders_are_looked_for_in_the_configuration(tmp_path: Path, write: Write) -> None:
    """An agent's decider must be configured; without a configuration nobody knows."""
    text = with_change(
        "{description: Answers readers of the library.}", "{description: A., decider: bank}"
    )
    path = write(text)
    config = tmp_path / "turnstream.yaml"
    config.write_text("catalog: catalog.yaml\n", encoding="utf-8")
    line = text.split("decider: bank")[0].count("\n") + 1
    problem = "agents.desk.decider: no decider 'bank'; configured are catalog_rules"

    assert run("check", str(path))[0] == 0
    for arguments in ((str(path), "-c", str(config)), ("-c", str(config))):
        code, output = run("check", *arguments)
        assert 1 == code
        assert f"{path}:{line}: error {problem} [check]" in output


def test_show_gives_versions_and_definitions() -> None:
    """The versions that travel on decisions can be looked up, in both forms."""
    code, text = run("show", str(DEMO))
    _, body = run("show", str(DEMO), "-o", "json")
    shown = json.loads(body)

    assert code == 0
    assert shown["decision_version"] in text
    assert shown["presentation_version"] in text
    assert shown["catalog"]["agents"]["shop"]["maxSteps"] == 8


def test_show_ends_with_1_on_a_faulty_catalog(write: Write) -> None:
    """A catalog with faults has no versions to show."""
    assert run("show", str(write(with_change("effect: read", "effect: x"))))[0] == 1
