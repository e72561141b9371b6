"""Fixtures of the catalog's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a catalog file and gives its path."""

    def written(text: str) -> Path:
        path = tmp_path / "catalog.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written
