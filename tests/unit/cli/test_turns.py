"""`turnstream turns send`: what it says before anything is sent."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.reference import PAGE
from tests.unit.catalog.small import SMALL
from turnstream.cli.root import app
from turnstream.cli.turn_lines import BadLine, LineReader
from turnstream.cli.turns import api_channel
from turnstream.config import Settings

LINE = b'{"conversation_id": "c", "text": "x"}'


def test_the_lines_in_the_documents_are_taken() -> None:
    """Turns, live actions and commands, as they are shown."""
    root = PAGE.parents[1]
    text = (root / "README.md").read_text(encoding="utf-8") + PAGE.read_text(encoding="utf-8")
    lines = re.findall(r'^\{"(?:conversation|session)_id".*\}$', text, re.MULTILINE)
    live = re.findall(r'\{"conversation_id"[^{}]*"action"[^{}]*\}', text)
    controls = re.findall(r'\{"conversation_id"[^{}]*"kind"[^{}]*\}', text)

    assert (2, 1, 1) == (len(lines), len(live), len(controls))
    for event, shown in (("turn", lines), ("live-action", live), ("control", controls)):
        for line in shown:
            read = LineReader(event, "api").read(line.encode(), number=1)
            assert read.conversation_id in {"c-17", "c-18"}


def test_an_absent_file_is_said_to_be_absent(tmp_path: Path) -> None:
    """Status 2 without the numbers of the operating system."""
    result = CliRunner().invoke(app, ["turns", "send", str(tmp_path / "nope")])

    assert 2 == result.exit_code
    assert "nope: there is no such file" in result.stderr
    assert "Errno" not in result.stderr


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Status 2, and what was expected."""
    result = CliRunner().invoke(app, ["turns", "send", str(tmp_path)])

    assert 2 == result.exit_code
    assert f"{tmp_path}: a folder; expected a file of JSON lines" in result.stderr


@pytest.mark.parametrize(
    ("catalog", "reason"),
    [
        (SMALL, r"channel_id: the catalog has no channel of type api to default to \(web\); name"),
        (None, r"channel_id: no catalog to take a default from \(.*cannot be read.*--channel"),
    ],
)
def test_a_turn_without_a_channel_says_why_there_is_no_default(
    tmp_path: Path, catalog: str | None, reason: str
) -> None:
    """The default is the catalog's first channel of type api; without one the line is refused."""
    path = tmp_path / "catalog.yaml"
    if catalog is not None:
        path.write_text(catalog, encoding="utf-8")
    channel, why = api_channel(Settings(catalog=path))

    assert channel is None
    with pytest.raises(BadLine, match=reason):
        LineReader("turn", channel, no_channel=why).read(LINE, number=1)


def test_the_first_channel_of_type_api_is_the_default(tmp_path: Path) -> None:
    """Whatever it is called."""
    path = tmp_path / "catalog.yaml"
    path.write_text(SMALL.replace("type: webchat", "type: api"), encoding="utf-8")

    assert ("web", "") == api_channel(Settings(catalog=path))
