"""Where the STAR data is: never copied here, read from the folder that the user names."""

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VARIABLE = "TURNSTREAM_STAR_DIR"
DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data" / "star"


class DataMissing(Exception):
    """The data set is not where it was looked for; the message says what to do."""


def star_folder(given: Path | None = None) -> Path:
    """Return the folder with `dialogues.jsonl.gz` and `apis.json`.

    Raises:
        DataMissing: A file is not there.
    """
    folder = given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else DEFAULT)
    for name in ("dialogues.jsonl.gz", "apis.json"):
        if not (folder / name).is_file():
            raise DataMissing(
                f"the STAR dialogues are not here: no {name} in {os.path.relpath(folder)!r}. They "
                "are not part of this repository. Name the folder that holds dialogues.jsonl.gz "
                f"and apis.json with --star DIR or the environment variable {VARIABLE}; "
                "benchmarks/README.md says what the files must contain."
            )
    return folder


def dialogues(folder: Path) -> Iterator[dict[str, Any]]:
    """Read the dialogues, in the order of the file."""
    with gzip.open(folder / "dialogues.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def apis(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the APIs: name to input, output and required."""
    found: dict[str, dict[str, Any]] = json.loads((folder / "apis.json").read_text("utf-8"))
    return found
