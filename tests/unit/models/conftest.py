"""Requests over the demo's catalog, as the core would make them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import turnstream
from turnstream.core.definitions import Catalog
from turnstream.core.extraction import Extractor
from turnstream.core.ports import DecisionRequest, Message, ToolOption
from turnstream.models.catalog_rules import CatalogRules

Ask = Callable[..., DecisionRequest]


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The demo's catalog."""
    path = Path(turnstream.__file__).parent / "demo" / "catalog.yaml"
    return Catalog.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def decider(catalog: Catalog) -> CatalogRules:
    """The embedded decider of that catalog."""
    return CatalogRules(catalog, "0123456789abcdef")


@pytest.fixture(scope="session")
def ask(catalog: Catalog) -> Ask:
    """Make a request for a text; values in it are known, everything else is missing."""
    extractor = Extractor(catalog.fields)

    def make(text: str, *, earlier: tuple[str, ...] = (), **more: Any) -> DecisionRequest:
        found = extractor.candidates(text)
        tools = tuple(
            ToolOption(
                name,
                missing=tuple(one for one in tool.arguments if one not in found),
                ambiguous=tuple(one for one in tool.arguments if len(found.get(one, ())) > 1),
                blocked=(),
            )
            for name, tool in catalog.tools.items()
        )
        given: dict[str, Any] = {
            "agent": "shop",
            "locale": "fr",
            "interactive": True,
            "messages": tuple(Message("customer", one) for one in (*earlier, text)),
            "latest": text,
            "known": {field: values[0] for field, values in found.items()},
            "tools": tools,
            "facts": (),
            "answered_field": None,
            "open_intent": None,
        }
        return DecisionRequest(**{**given, **more})

    return make
