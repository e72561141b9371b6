"""``python -m tests.fuzz``: a hundred thousand arguments of a model, each at the gates and through.

Each is drawn for a tool of ``tests/fixtures/fuzz/catalog.yaml``. One that crashes anything, or
leads to a call that it should not, ends the run and is shown in its simplest form. The table says
where the others ended, so that nobody believes in a run of which nothing passed.
"""

import argparse
import sys
import time
from collections import Counter
from typing import Final

from hypothesis import HealthCheck, given, seed, settings
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.properties.argument_checks import check_core, check_gates
from tests.properties.argument_texts import CASES, Raw

_EXAMPLES: Final = 100_000


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=_EXAMPLES, help="arguments to try")
    parser.add_argument("--seed", type=int, default=1, help="another one, other arguments")
    options = parser.parse_args()
    console = Console()
    columns = (
        TextColumn("arguments of a model"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    ends: Counter[str] = Counter()
    begun = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=options.examples)

        @seed(options.seed)
        @settings(
            max_examples=options.examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(CASES)
        def check(case: tuple[str, Raw, bool]) -> None:
            tool, raw, beside = case
            end = check_gates(tool, raw)
            assert end == check_core(tool, raw, beside=beside)
            ends[end] += 1
            progress.advance(task)

        check()
    seconds = time.perf_counter() - begun
    table = Table("arguments", "end", title=f"seed {options.seed}, {seconds:.0f} s")
    for end, count in ends.most_common():
        table.add_row(f"{count:,}", end)
    console.print(table)
    tried = ends.total()
    console.print(
        f"{tried:,} arguments, {tried / seconds:,.0f} a second: none did what it must not"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
