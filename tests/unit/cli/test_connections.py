"""Places that nobody can connect to are told of, whatever is wrong with them."""

import pytest

from turnstream.cli.connections import unreachable


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("http://model:80a/v1", "the port of its URL is none"),
        ("http://model..internal/v1", "the host has no name that can be looked up"),
    ],
)
def test_a_place_that_is_none(url: str, detail: str) -> None:
    """It would else end the examination of all others."""
    (found,) = unreachable("models", {"deciders.gpt": url}, remedy="see base_url")

    assert ("warn", "see base_url") == (found.status, found.remedy)
    assert "deciders.gpt" in found.detail
    assert detail in found.detail
