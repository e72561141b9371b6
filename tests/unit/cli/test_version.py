"""The command itself."""

from typer.testing import CliRunner

from turnstream import __version__
from turnstream.cli.root import app


def test_the_version_is_printed() -> None:
    """And nothing else happens."""
    result = CliRunner().invoke(app, ["--version"])

    assert (0, f"{__version__}\n") == (result.exit_code, result.output)
