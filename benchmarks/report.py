"""Results: a table on the terminal, a JSON file under results/."""

import os
import platform
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import rich.box
import rich.table
from rich.console import Console

RESULTS = Path(__file__).with_name("results")
console = Console()


class Table(NamedTuple):
    """What is printed."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def show(table: Table) -> None:
    """Print a table; numbers are right-aligned."""
    shown = rich.table.Table(title=table.title, title_justify="left", box=rich.box.SIMPLE_HEAD)
    for at, column in enumerate(table.columns):
        numeric = at > 0 and all(row[at][:1] in "0123456789-" or not row[at] for row in table.rows)
        shown.add_column(column, justify="right" if numeric else "left", no_wrap=numeric)
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)
    if table.note:
        console.print(table.note)


def machine() -> dict[str, Any]:
    """Return what a figure depends on besides the code."""
    described = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "commit": described.stdout.strip() or None,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def finish(name: str, found: dict[str, Any], *tables: Table) -> None:
    """Print the tables and keep the figures."""
    for table in tables:
        show(table)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    document = {"machine": machine(), **found}
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    console.print(f"figures: benchmarks/results/{path.name}")
