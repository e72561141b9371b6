"""The key of every provider, where sections look for it."""

import pytest

from tests.models.adapters import KEY_VARIABLE
from tests.providers.server import KEY
from tests.read_once import install

install()


@pytest.fixture(autouse=True)
def provider_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variable that sections name."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
