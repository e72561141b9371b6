"""Loading a catalog: read, validate, check, version. Nothing starts on a catalog with a fault."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from turnstream.catalog.answer_schemas import with_answer_schemas
from turnstream.catalog.checks import catalog_problems
from turnstream.catalog.version import decision_version, presentation_version
from turnstream.config.yaml_lines import Document, Fault, YamlUnreadable, read_yaml
from turnstream.core.definitions import Catalog
from turnstream.core.errors import DefinitionError


class CatalogError(DefinitionError):
    """The catalog cannot be used; whoever edits it must act.

    `faults` names every fault found, each with file, line, path and what was expected.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class LoadedCatalog:
    """A catalog that passed every check, and what identifies it."""

    catalog: Catalog
    decision_version: str
    """Hash of tools, descriptions, schemas, rules, thresholds and agents."""
    presentation_version: str
    """Hash of question texts, locales and templates."""
    path: Path


def load_catalog(path: Path) -> LoadedCatalog:
    """Load a catalog from YAML.

    Raises:
        CatalogError: the file cannot be read, or the catalog contradicts itself. The shape is
            checked first; what its parts say about each other only once the shape is right.
    """
    document, catalog = read_catalog(path)
    faults = catalog_faults(document, catalog)
    if faults:
        raise CatalogError(faults)
    return LoadedCatalog(
        catalog=catalog,
        decision_version=decision_version(catalog),
        presentation_version=presentation_version(catalog),
        path=path,
    )


def read_catalog(path: Path) -> tuple[Document, Catalog]:
    """Read a catalog's shape, with the lines of the file, without checking its references.

    Raises:
        CatalogError: the file cannot be read, or a key or a value has no place in a catalog.
    """
    try:
        document = read_yaml(path)
    except YamlUnreadable as error:
        raise CatalogError(error.faults) from error
    if not isinstance(document.value, dict):
        raise CatalogError([document.fault((), "expected a mapping with tools, fields, answers")])
    # A section whose lines are all commented out reads as null and means that it is empty.
    written = {key: value for key, value in document.value.items() if value is not None}
    given, faults = with_answer_schemas(written, path.parent)
    if faults:
        raise CatalogError([document.fault(place, message) for place, message in faults])
    try:
        return document, Catalog.model_validate(given)
    except ValidationError as error:
        raise CatalogError(document.faults(error, model=Catalog)) from error


def catalog_faults(document: Document, catalog: Catalog) -> list[Fault]:
    """Everything that keeps a well-formed catalog from being used, in the order of the file."""
    faults = [document.fault(place, message) for place, message in catalog_problems(catalog)]
    return sorted(faults, key=lambda fault: (fault.line or 0, fault.path))


def decider_faults(document: Document, catalog: Catalog, deciders: Collection[str]) -> list[Fault]:
    """Agents whose decider is none of the configured ones."""
    known = ", ".join(sorted(deciders))
    return [
        document.fault(
            ("agents", name, "decider"),
            f"no decider {agent.decider!r}; configured are {known}",
        )
        for name, agent in catalog.agents.items()
        if agent.decider not in deciders
    ]


def check_deciders(loaded: LoadedCatalog, deciders: Collection[str]) -> None:
    """Check that every agent's decider is configured.

    Raises:
        CatalogError: one is not.
    """
    if all(agent.decider in deciders for agent in loaded.catalog.agents.values()):
        return
    document, catalog = read_catalog(loaded.path)  # again, for the lines
    raise CatalogError(decider_faults(document, catalog, deciders))
