"""Signals while a command is still being imported, or waits before it has begun."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import small_shop

ROOT = Path(__file__).parents[3]


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


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_a_role_that_waits_for_its_brokers_stops_when_told_to(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    """Nothing has begun, so nothing is to be finished: an orchestrator sees no fault."""
    (tmp_path / "catalog.yaml").write_text(yaml.safe_dump(small_shop.CATALOG))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "processors"), str(ROOT))),
    }
    # Takes the connection and never answers, as a broker that hangs.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        deployment = {
            "kafka": {"bootstrap_servers": f"127.0.0.1:{silent.getsockname()[1]}"},
            "deciders": {"by_word": {"kind": "python", "target": "tests.small_shop:by_word"}},
        }
        (tmp_path / "turnstream.yaml").write_text(yaml.safe_dump(deployment))
        with subprocess.Popen(
            [sys.executable, "-m", "turnstream.cli", "run", "decide"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                connection, _ = silent.accept()
                process.send_signal(number)
                output, errors = process.communicate(timeout=60)
            finally:
                process.kill()
            connection.close()

    assert (status, "") == (process.returncode, output)
    assert "Traceback" not in errors
