"""The STAR benchmark's own parts: its catalog, its services and its converter."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnstream.catalog import load_catalog
from turnstream.core.bindings import FunctionBinding
from turnstream.core.ports import ToolCall
from turnstream.tools.function import FunctionTool

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "benchmarks" / "star" / "catalog.yaml"


@pytest.fixture
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the benchmarks importable, which are not installed."""
    monkeypatch.syspath_prepend(str(ROOT))


def dialogue() -> dict[str, Any]:
    """A made-up dialogue in the data set's form."""

    def user(text: str, at: int) -> dict[str, Any]:
        return {"Agent": "User", "Action": "utter", "Text": text, "UnixTime": at}

    def said(label: str, at: int) -> dict[str, Any]:
        return {
            "Agent": "Wizard", "Action": "pick_suggestion", "ActionLabel": label, "UnixTime": at
        }  # fmt: skip

    return {
        "dialogue_id": 7,
        "events": [
            user("sun or rain?", 100),
            said("weather_ask_day", 104),
            user("on Monday, over there", 110),
            {
                "Agent": "Wizard",
                "Action": "query",
                "APIName": "weather",
                "UnixTime": 112,
                "Constraints": [{"Day": 'api.is_equal_to("Monday")'}, {"City": '"Chicago"'}],
            },
            {"Agent": "KnowledgeBase", "Action": "return_item", "Item": {}},
            said("weather_inform_forecast", 115),
            user("who are you?", 120),
            said("out_of_scope", 121),
            user("well", 130),
            said("goodbye_1", 131),
            {"Agent": "User", "Action": "complete", "UnixTime": 140},
        ],
    }


def write_data(folder: Path) -> None:
    """A data set of one dialogue and one API."""
    with gzip.open(folder / "dialogues.jsonl.gz", "wt") as file:
        file.write(json.dumps(dialogue()) + "\n")
    weather = {"input": [{"Name": "Day", "Type": "Categorical"}], "output": [], "required": []}
    (folder / "apis.json").write_text(json.dumps({"weather": weather}))


def convert(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs the converter as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.star.convert", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "processors")))},
        capture_output=True,
        text=True,
        check=False,
    )


def test_catalog_passes_every_check() -> None:
    """The catalog loads and has a tool for each of the data set's 24 APIs in use."""
    catalog = load_catalog(CATALOG).catalog

    assert 24 == len(catalog.tools)


async def test_services_give_what_the_catalog_promises(from_the_root: None) -> None:
    """Each tool's function returns a result that its result schema accepts, always the same."""
    catalog = load_catalog(CATALOG).catalog

    for name, tool in catalog.tools.items():
        assert isinstance(tool.binding, FunctionBinding)
        bound = FunctionTool(name, tool=tool, binding=tool.binding)
        call = ToolCall(name, {}, "key", None, "conversation")
        first, second = await bound.call(call), await bound.call(call)
        await bound.close()

        assert (None, first.result) == (first.error_code, second.result), name


async def test_services_know_no_more_than_their_lists(from_the_root: None) -> None:
    """What a customer names freely may be on no list of the result's: it is within its schema."""
    catalog = load_catalog(CATALOG).catalog
    free = {
        name: {
            argument: "Nowhere-on-Sea"
            for argument, schema in tool.input_schema["properties"].items()  # type: ignore[union-attr]
            if schema == {"type": "string"}
        }
        for name, tool in catalog.tools.items()
    }

    assert {"DepartureCity": "Nowhere-on-Sea"} == free["plane_search"]
    for name, arguments in free.items():
        tool = catalog.tools[name]
        assert isinstance(tool.binding, FunctionBinding)
        bound = FunctionTool(name, tool=tool, binding=tool.binding)
        reply = await bound.call(ToolCall(name, arguments, "key", None, "conversation"))
        await bound.close()

        assert None is reply.error_code, (name, reply.error_message)


def test_converter_maps_what_the_human_did_next(tmp_path: Path) -> None:
    """Each user turn becomes a turn and a live action; the human's first action after it counts."""
    write_data(tmp_path)

    live_file = tmp_path / "live.jsonl"
    result = convert("--star", str(tmp_path), "--live-actions", str(live_file), "--at", "1000")
    turns = [json.loads(line) for line in result.stdout.splitlines()]
    live = [json.loads(line) for line in live_file.read_text().splitlines()]

    assert ["sun or rain?", "on Monday, over there", "who are you?", "well", ""] == [
        turn["text"] for turn in turns
    ]
    assert [1000, 11_000, 21_000, 31_000, 41_000] == [turn["occurred_at"] for turn in turns]
    assert [turn["turn_id"] for turn in turns] == [one["turn_id"] for one in live]
    assert ["ask", "call_tool", "refuse", "answer", "unlabelled"] == [one["action"] for one in live]
    assert "day" == live[0]["missing_field"]
    assert ("weather", {"Day": "Monday", "City": "Chicago"}) == (
        live[1]["tool"],
        json.loads(live[1]["arguments_json"]),
    )


def test_absent_data_is_said_clearly(tmp_path: Path) -> None:
    """Without the data set the run ends with what to do, and no traceback."""
    result = convert("--star", str(tmp_path))

    assert 1 == result.returncode
    assert "--star DIR" in result.stderr
    assert "Traceback" not in result.stderr
