"""The command line. One module per group of commands; each imports what it needs when it runs.

Exit status: 0 fine, 1 findings, 2 could not run, 130 interrupted. `topics plan` alone differs, for
pipelines: 0 nothing to do, 2 changes needed, 1 error.
"""

from turnstream.cli.interrupts import ending_at_once


def main() -> None:
    """Entry point of the ``turnstream`` command."""
    with ending_at_once():
        from turnstream.cli.root import app, configure_logging

        configure_logging()
    app()
