"""One YAML document laid over another: JSON Merge Patch (RFC 7396).

The demo's candidate is such a patch, so that it says what differs and nothing else.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

import yaml
from pydantic import JsonValue

CATALOG: Final = "catalog.yaml"
CANDIDATE: Final = "candidate.yaml"
DEPLOYMENT: Final = "turnstream.yaml"


def merged(base: JsonValue, patch: JsonValue) -> JsonValue:
    """Lay a patch over a document: mappings are merged, null removes, all else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(base) if isinstance(base, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def packaged(name: str) -> JsonValue:
    """Read one of the demo's own YAML files."""
    text = (files("turnstream.demo") / name).read_text("utf-8")
    document: JsonValue = yaml.safe_load(text)
    return document


def write_deployment(folder: Path, patch: Mapping[str, JsonValue]) -> Path:
    """Write the demo's catalogs and configuration into a folder; return the configuration's path.

    Args:
        folder: Where to.
        patch: What differs from the packaged configuration: addresses and names of this run.
    """
    catalog = packaged(CATALOG)
    _write(folder / CATALOG, catalog)
    _write(folder / CANDIDATE, merged(catalog, packaged(CANDIDATE)))
    run: dict[str, JsonValue] = {"catalog": CATALOG, "shadow": {"catalog": CANDIDATE}, **patch}
    configuration = folder / DEPLOYMENT
    _write(configuration, merged(packaged(DEPLOYMENT), run))
    return configuration


def _write(path: Path, document: JsonValue) -> None:
    path.write_text(
        yaml.safe_dump(document, allow_unicode=True, sort_keys=False, width=100), encoding="utf-8"
    )
