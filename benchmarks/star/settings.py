"""The deployment of the STAR run."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from turnstream.config import Settings

ROOT = Path(__file__).resolve().parents[2]
CATALOG = Path(__file__).with_name("catalog.yaml")


def configuration(bootstrap: str, prefix: str) -> dict[str, Any]:
    """Return the configuration; its decider and limits are the defaults."""
    return {
        "kafka": {"bootstrap_servers": bootstrap},
        "topics": {"prefix": prefix},
        "partitions": 4,
        "start_from": "earliest",
        "catalog": str(CATALOG),
        "shadow": {"compare_with": "people"},
    }


def settings(bootstrap: str, prefix: str) -> Settings:
    """Return the same as settings."""
    return Settings.model_validate(configuration(bootstrap, prefix))


def start_role(role: str, config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a role as users do."""
    paths = (os.environ.get("PYTHONPATH", ""), str(ROOT), str(ROOT / "processors"))
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "turnstream.cli", "run", role, "--config", str(config)],
            cwd=config.parent,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def write(folder: Path, bootstrap: str, prefix: str) -> Path:
    """Write the configuration file."""
    path = folder / "turnstream.yaml"
    path.write_text(yaml.safe_dump(configuration(bootstrap, prefix)), encoding="utf-8")
    return path
