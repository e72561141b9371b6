"""The candidate is a patch over the catalog, and gives a catalog that differs and is sound."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from turnstream.catalog import load_catalog
from turnstream.config import load_settings
from turnstream.demo.overlay import merged, write_deployment


@pytest.mark.parametrize(
    ("base", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        (["a"], ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ],
)
def test_merges_as_the_standard_says(
    base: JsonValue, patch: JsonValue, expected: JsonValue
) -> None:
    """Examples of RFC 7396, appendix A."""
    assert expected == merged(base, patch)


def test_deployment_has_two_sound_catalogs(tmp_path: Path) -> None:
    """Both catalogs load, and the candidate decides otherwise."""
    settings = load_settings(write_deployment(tmp_path, {"topics": {"prefix": "x."}}))
    assert settings.shadow.catalog is not None
    main, candidate = load_catalog(settings.catalog), load_catalog(settings.shadow.catalog)

    assert "x.conversation.turns" == settings.topics.name("conversation.turns")
    assert main.decision_version != candidate.decision_version
    assert "other_customers_data" not in candidate.catalog.rules
