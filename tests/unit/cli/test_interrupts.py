"""Ctrl-C while a command is still being imported."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("demo", "typer"),
        ("demo", "turnstream.cli.root"),
        ("demo", "turnstream.demo.show"),
        ("demo", "aiokafka"),
        ("chat", "turnstream.demo.talk"),
        ("turns", "turnstream.cli.sending"),
    ],
)
def test_it_ends_without_a_word(command: str, module: str) -> None:
    """Status 130 and no traceback, whatever was being imported."""
    program = (
        "import os, signal, sys\n"
        "class Interrupter:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupter())\n"
        "from turnstream.cli import main\n"
        "main()\n"
    )
    arguments = {"turns": ["turns", "send", "-"]}.get(command, [command])
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (130, b"", b"") == (run.returncode, run.stdout, run.stderr)
