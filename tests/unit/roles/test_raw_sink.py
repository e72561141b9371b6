"""The restricted sink of raw texts: for its owner alone, bounded, and never in anybody's way."""

import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from turnstream.config import RawSinkSettings, load_settings
from turnstream.roles.deployment import Deployment, DeploymentError
from turnstream.roles.raw_sink import RAW_CHARACTERS, RawSink, RawSinkError


class Losses:
    """Counts what is lost, from any thread."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        """One more."""
        self.count += 1


@pytest.fixture
def losses() -> Losses:
    """Nothing lost yet."""
    return Losses()


def opened(folder: Path, losses: Losses, **changes: Any) -> RawSink:
    """A sink of one role."""
    given: dict[str, Any] = {"role": "decide", "max_bytes": 1_000, "files": 3} | changes
    return RawSink(folder, lost=losses, **given)


def lines(path: Path) -> list[dict[str, Any]]:
    """The entries of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def mode(path: Path) -> int:
    """Who may do what."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_text_is_kept_for_its_owner_alone(tmp_path: Path, losses: Losses) -> None:
    """One JSON object per line, with what it is, in files and a folder of its user alone."""
    folder = tmp_path / "deep" / "raw"
    before = os.umask(0)
    try:
        sink = opened(folder, losses)
        sink.put('{"a": "é', {"tool_call_id": "call-1"})
        sink.put("\ud800", {"tool_call_id": "call-2"})
        sink.close()
    finally:
        os.umask(before)

    assert [
        {"tool_call_id": "call-1", "length": 8, "raw": '{"a": "é'},
        {"tool_call_id": "call-2", "length": 1, "raw": "?"},
    ] == lines(folder / "decide.0.jsonl")
    assert 0o700 == mode(folder)
    assert {0o600} == {mode(one) for one in folder.iterdir()}
    assert 0 == losses.count


def test_a_file_is_gone_on_with(tmp_path: Path, losses: Losses) -> None:
    """By the next process of the role."""
    for word in ("one", "two"):
        sink = opened(tmp_path / "raw", losses)
        sink.put(word, {})
        sink.close()

    assert ["one", "two"] == [one["raw"] for one in lines(tmp_path / "raw" / "decide.0.jsonl")]


@pytest.mark.parametrize("files", [1, 3])
def test_the_newest_are_kept(tmp_path: Path, losses: Losses, files: int) -> None:
    """As many files as allowed, none longer than allowed, the oldest gone."""
    folder = tmp_path / "raw"
    sink = opened(folder, losses, files=files)
    for number in range(60):
        sink.put(f"{number:0100}", {})
    sink.close()

    kept = sorted(folder.glob("*.jsonl*"), reverse=True)
    numbers = [int(one["raw"]) for path in kept for one in lines(path)]
    assert files == len(kept)
    assert {True} == {path.stat().st_size <= 1_000 for path in kept}
    assert list(range(60 - len(numbers), 60)) == numbers


def test_a_long_text_is_cut(tmp_path: Path, losses: Losses) -> None:
    """Its length is told whole."""
    sink = opened(tmp_path / "raw", losses)
    sink.put("x" * (RAW_CHARACTERS + 7), {})
    sink.close()

    (entry,) = lines(tmp_path / "raw" / "decide.0.jsonl")
    assert (RAW_CHARACTERS + 7, RAW_CHARACTERS) == (entry["length"], len(entry["raw"]))


def test_processes_have_files_of_their_own(tmp_path: Path, losses: Losses) -> None:
    """Two of a role in one folder do not write into each other's; who ends gives its place free."""
    folder = tmp_path / "raw"
    one, other = opened(folder, losses), opened(folder, losses)
    one.put("one", {})
    other.put("other", {})
    one.close()
    third = opened(folder, losses)
    third.put("third", {})
    third.close()
    other.close()

    assert ["one", "third"] == [entry["raw"] for entry in lines(folder / "decide.0.jsonl")]
    assert ["other"] == [entry["raw"] for entry in lines(folder / "decide.1.jsonl")]


def test_a_disk_that_fails_costs_the_text_and_nothing_else(
    tmp_path: Path,
    losses: Losses,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Half a line is taken back, the trouble is logged once, and the next text is written."""
    sound = os.write
    full = [True, True]

    def write(descriptor: int, data: Any) -> int:
        if full:
            if len(data) > 10:
                return sound(descriptor, data[:10])
            full.pop()
            raise OSError(errno.ENOSPC, "no space left")
        return sound(descriptor, data)

    monkeypatch.setattr("turnstream.roles.raw_sink.os.write", write)
    sink = opened(tmp_path / "raw", losses)
    for word in ("secret-1", "secret-2", "kept"):
        sink.put(word, {})
    sink.close()

    assert ["kept"] == [one["raw"] for one in lines(tmp_path / "raw" / "decide.0.jsonl")]
    assert 2 == losses.count
    out = capsys.readouterr().out
    assert 1 == out.count("the raw sink cannot be written")
    assert "secret" not in out


def test_a_disk_that_hangs_holds_nobody_up(
    tmp_path: Path, losses: Losses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit into the queue is lost and counted."""
    sound, open_again = os.write, threading.Event()

    def write(descriptor: int, data: Any) -> int:
        open_again.wait(30)
        return sound(descriptor, data)

    monkeypatch.setattr("turnstream.roles.raw_sink.os.write", write)
    sink = opened(tmp_path / "raw", losses, max_bytes=10_000_000)
    for number in range(1_000):
        sink.put(str(number), {})
    lost = losses.count
    open_again.set()
    sink.close()

    written = len(lines(tmp_path / "raw" / "decide.0.jsonl"))
    assert lost > 0
    assert 1_000 == written + lost


@pytest.mark.parametrize("how", ["others may read", "a link", "a file"])
def test_a_folder_that_others_may_read_is_refused(tmp_path: Path, losses: Losses, how: str) -> None:
    """The error says what to do."""
    folder = tmp_path / "raw"
    if how == "others may read":
        folder.mkdir()
        folder.chmod(0o750)
    elif how == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.touch(0o600)

    with pytest.raises(RawSinkError, match=r"raw_sink\.directory: .*chmod 700"):
        opened(folder, losses)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, losses: Losses) -> None:
    """At the start, where somebody looks."""
    (tmp_path / "file").touch()
    with pytest.raises(RawSinkError, match="cannot be made"):
        opened(tmp_path / "file" / "raw" / "deeper", losses)

    folder = tmp_path / "raw"
    folder.mkdir(mode=0o700)
    (folder / "decide.0.jsonl").mkdir()
    with pytest.raises(RawSinkError, match="cannot be written"):
        opened(folder, losses)


def test_a_deployment_has_a_sink_only_if_it_asks_for_one(tmp_path: Path) -> None:
    """Off by default; its folder is relative to the configuration file."""
    path = tmp_path / "turnstream.yaml"
    path.write_text("raw_sink: {directory: raw}\n", "utf-8")
    settings = load_settings(path)
    catalog = Path(__file__).parents[3] / "processors/turnstream/demo/catalog.yaml"

    assert RawSinkSettings(directory=tmp_path / "raw") == settings.raw_sink
    assert Deployment(load_settings(None), catalog).raw_sink("decide") is None
    sink = Deployment(settings, catalog).raw_sink("decide")
    assert sink is not None
    sink.close()
    (tmp_path / "raw").chmod(0o755)
    with pytest.raises(DeploymentError, match=r"raw_sink\.directory"):
        Deployment(settings, catalog).raw_sink("decide")
