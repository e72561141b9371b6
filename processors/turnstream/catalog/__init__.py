"""Loads, versions and lints the catalog: tools, rules, questions, agents."""

from turnstream.catalog.load import CatalogError, LoadedCatalog, check_deciders, load_catalog
from turnstream.catalog.schemas import answer_checks, argument_checks
from turnstream.catalog.version import decision_version, presentation_version

__all__ = [
    "CatalogError",
    "LoadedCatalog",
    "answer_checks",
    "argument_checks",
    "check_deciders",
    "decision_version",
    "load_catalog",
    "presentation_version",
]
