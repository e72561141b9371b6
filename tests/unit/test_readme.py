"""The page that a visitor reads first leads nowhere astray."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

ROWS = README.partition("| promise | test that proves it |\n| --- | --- |\n")[2]
PROMISES = [line.strip("| ").split(" | ") for line in ROWS.partition("\n\n")[0].splitlines()]
"""Each promise, and what proves it."""


def targets(text: str) -> list[str]:
    """The files and folders that a text links to."""
    return [one for one in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in one]


def test_what_it_links_to_is_there() -> None:
    """A file that was moved takes its link along."""
    assert [] == [one for one in targets(README) if not (ROOT / one).exists()]


def test_every_promise_of_the_design_is_there() -> None:
    """Ten of delivery, safety and bounds, and what has been promised since."""
    assert len(PROMISES) >= 10
    assert {2} == {len(row) for row in PROMISES}


@pytest.mark.parametrize("proofs", [row[1] for row in PROMISES], ids=[row[0] for row in PROMISES])
def test_a_promise_has_tests(proofs: str) -> None:
    """Each file named holds some, and no helper is passed off as one."""
    named = targets(proofs)

    assert named
    for name in named:
        path = ROOT / name
        assert path.is_relative_to(ROOT / "tests")
        files = [path] if path.is_file() else list(path.glob("test_*.py"))
        assert any("def test_" in file.read_text(encoding="utf-8") for file in files), name
