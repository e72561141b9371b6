"""``turnstream topics``: exit statuses and texts that need no cluster."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from turnstream.cli import topics
from turnstream.cli.root import app
from turnstream.config import Settings
from turnstream.stream import topics as of_stream
from turnstream.stream.topics import Change, Plan, WantedTopic

LONG = "a-prefix-as-long-as-some-platforms-have-them.with-a-dot.conversation.live-actions.dlq"
WANTED = WantedTopic(LONG, 4, 1, {})


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["topics", "plan", "--partition", "4"], 1),
        (["topics", "plan", "--partitions", "none"], 1),
        (["topics", "apply", "--partition", "4"], 2),
        (["topics", "plan", "--help"], 0),
    ],
    ids=str,
)
def test_a_wrong_call_is_no_plan(arguments: list[str], status: int) -> None:
    """Of `plan`, 2 says that changes are needed; a pipeline must not take it for that."""
    assert status == CliRunner().invoke(app, arguments).exit_code


def test_a_change_is_one_line_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the width, so that a pipeline can search it."""

    async def plan(_settings: Settings, **_options: object) -> Plan:
        create = Change(LONG, "create", "4 partitions, 1 replica", WANTED)
        return Plan((create, Change("t", "replication", "has 3, wanted 1", WANTED)), topics=30)

    monkeypatch.setattr(of_stream, "plan", plan)

    result = CliRunner().invoke(app, ["topics", "plan"], env={"COLUMNS": "40"})

    assert 2 == result.exit_code
    assert [
        f"{LONG}: create: 4 partitions, 1 replica",
        "t: replication: has 3, wanted 1 (apply leaves it)",
    ] == result.stdout.splitlines()


def test_a_table_holds_whole_names() -> None:
    """A name that does not fit goes on in the next line."""
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    found = Plan((Change(LONG, "create", "4 partitions", WANTED),), topics=30)

    topics._write_table(found, console, applied=False)

    assert isinstance(console.file, io.StringIO)
    rows = [line.split("\u2502") for line in console.file.getvalue().splitlines()]
    assert LONG == "".join(row[1].strip() for row in rows if len(row) > 1)
