"""The restricted sink of raw texts: for its owner alone, bounded, and never in anybody's way."""

import errno
import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from turnstream.config import RawSinkSettings, load_settings
from turnstream.roles.deployment import Deployment, DeploymentError
from turnstream.roles.raw_sink import RAW_CHARACTERS, RawSink, RawSinkError

NOW = 1_700_000_000_000
AGE = 600_000
"""How long texts are kept, milliseconds."""


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
    given: dict[str, Any] = {
        "role": "decide",
        "max_bytes": 1_000,
        "files": 3,
        "max_age_seconds": 600,
        "now_ms": lambda: NOW,
    }
    return RawSink(folder, lost=losses, **given | changes)


def kept(folder: Path, losses: Losses, *texts: str, **changes: Any) -> None:
    """Texts of a process that has ended."""
    sink = opened(folder, losses, **changes)
    for text in texts:
        sink.put(text, {})
    sink.close()


def lines(path: Path) -> list[dict[str, Any]]:
    """The entries of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def texts_in(folder: Path) -> dict[str, list[str]]:
    """File to its texts."""
    return {
        path.name: [one["raw"] for one in lines(path)] for path in sorted(folder.glob("*.jsonl*"))
    }


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
        {"at": NOW, "tool_call_id": "call-1", "length": 8, "raw": '{"a": "é'},
        {"at": NOW, "tool_call_id": "call-2", "length": 1, "raw": "?"},
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

    found = sorted(folder.glob("*.jsonl*"), reverse=True)
    numbers = [int(one["raw"]) for path in found for one in lines(path)]
    assert files == len(found)
    assert {True} == {path.stat().st_size <= 1_000 for path in found}
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


def test_a_text_that_comes_after_the_end_is_counted(tmp_path: Path, losses: Losses) -> None:
    """A handler may still be at work while its role stops; closing twice is closing."""
    sink = opened(tmp_path / "raw", losses)
    sink.put("in time", {})
    sink.close()
    sink.put("too late", {})
    sink.close()

    assert 1 == losses.count
    assert {"decide.0.jsonl": ["in time"]} == texts_in(tmp_path / "raw")


def test_what_a_hanging_disk_never_took_is_counted_at_the_end(
    tmp_path: Path, losses: Losses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop does not wait for it, nor does a text go without a trace."""
    sound, stuck, open_again = os.write, threading.Event(), threading.Event()

    def write(descriptor: int, data: Any) -> int:
        stuck.set()
        open_again.wait(30)
        return sound(descriptor, data)

    monkeypatch.setattr("turnstream.roles.raw_sink.os.write", write)
    monkeypatch.setattr("turnstream.roles.raw_sink._CLOSE_SECONDS", 0.01)
    sink = opened(tmp_path / "raw", losses)
    sink.put("stuck", {})
    assert stuck.wait(30)
    for word in ("waits", "waits as well"):
        sink.put(word, {})
    sink.close()

    assert 2 == losses.count
    open_again.set()
    sink._thread.join(30)
    assert {"decide.0.jsonl": ["stuck"]} == texts_in(tmp_path / "raw")


# --- how long texts stay ------------------------------------------------------------------------


@pytest.mark.parametrize("files", [1, 2, 3])
def test_what_is_more_than_is_kept_goes_at_the_next_start(
    tmp_path: Path, losses: Losses, files: int
) -> None:
    """Where fewer files are asked for than before; those of others are theirs."""
    folder = tmp_path / "raw"
    kept(folder, losses, *(f"{number:0400}" for number in range(12)), files=5)
    kept(folder, losses, *(f"{number:0400}" for number in range(12)), files=5, role="execute")
    opened(folder, losses, files=files).close()

    names = ["decide.0.jsonl", *(f"decide.0.jsonl.{number}" for number in range(1, files))]
    assert names == [one for one in texts_in(folder) if one.startswith("decide")]
    assert 5 == len([one for one in texts_in(folder) if one.startswith("execute")])


@pytest.mark.parametrize(("age", "stay"), [(AGE - 1, True), (AGE, False)])
def test_old_texts_go_whoever_wrote_them(
    tmp_path: Path, losses: Losses, age: int, *, stay: bool
) -> None:
    """One's own of before, those of a process too many, and those of another role."""
    folder = tmp_path / "raw"
    first, second = opened(folder, losses), opened(folder, losses)
    for sink in (first, second):
        for number in range(6):
            sink.put(f"{number:0400}", {})
        sink.close()
    kept(folder, losses, "word", role="execute")
    (folder / "notes.txt").write_text("not ours", "utf-8")
    assert 7 == len(texts_in(folder))
    kept(folder, losses, "new", now_ms=lambda: NOW + age)

    assert (7 if stay else 1) == len(texts_in(folder))
    assert ["new"] == texts_in(folder)["decide.0.jsonl"][-1:]
    assert (folder / "notes.txt").exists()


def test_what_another_process_still_writes_to_is_left_to_it(tmp_path: Path, losses: Losses) -> None:
    """It removes its own texts."""
    folder = tmp_path / "raw"
    other = opened(folder, losses)
    kept(folder, losses, "theirs", role="execute")
    other.put("old", {})
    deadline = time.monotonic() + 30
    while "decide.0.jsonl" not in texts_in(folder) or not texts_in(folder)["decide.0.jsonl"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kept(folder, losses, now_ms=lambda: NOW + AGE)

    assert ["old"] == texts_in(folder)["decide.0.jsonl"]
    assert "execute.0.jsonl" not in texts_in(folder)
    other.close()


def test_texts_grow_old_while_nothing_is_written(
    tmp_path: Path, losses: Losses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink looks by itself now and then, also at the file that it writes to."""
    folder, now = tmp_path / "raw", [NOW]
    monkeypatch.setattr("turnstream.roles.raw_sink._LOOK_SECONDS", 0.01)
    sink = opened(folder, losses, now_ms=lambda: now[0])
    sink.put("old", {})
    now[0] += AGE
    deadline = time.monotonic() + 30
    while (folder / "decide.0.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert sink._file is None, "a file that is held open stays on the disk"
    sink.put("new", {})
    sink.close()

    assert {"decide.0.jsonl": ["new"]} == texts_in(folder)
    assert 0 == losses.count


def test_a_file_takes_texts_for_a_part_of_the_age_alone(tmp_path: Path, losses: Losses) -> None:
    """So that a late text does not go long before its time with the first of its file."""
    folder = tmp_path / "raw"
    for number, at in enumerate((0, AGE // 3 - 1, AGE // 3, AGE // 3 * 2)):
        kept(folder, losses, str(number), now_ms=lambda at=at: NOW + at)

    assert {
        "decide.0.jsonl": ["3"],
        "decide.0.jsonl.1": ["2"],
        "decide.0.jsonl.2": ["0", "1"],
    } == texts_in(folder)
    kept(folder, losses, now_ms=lambda: NOW + AGE)
    assert ["decide.0.jsonl", "decide.0.jsonl.1"] == list(texts_in(folder))


def test_a_file_that_does_not_say_when_it_began_is_as_old_as_its_last_text(
    tmp_path: Path, losses: Losses
) -> None:
    """Half a line that a crash left, or somebody's edit."""
    folder = tmp_path / "raw"
    opened(folder, losses).close()
    for number, age in ((1, AGE), (2, AGE - 60_000)):
        path = folder / f"decide.0.jsonl.{number}"
        path.write_text("{", "utf-8")
        os.utime(path, ns=((NOW - age) * 1_000_000,) * 2)
    opened(folder, losses).close()

    assert ["decide.0.jsonl", "decide.0.jsonl.2"] == sorted(
        one.name for one in folder.glob("*.jsonl*")
    )


def test_a_file_that_somebody_has_removed_is_made_anew(tmp_path: Path, losses: Losses) -> None:
    """No text is written to where nobody will ever read it."""
    folder = tmp_path / "raw"
    sink = opened(folder, losses, max_bytes=10_000)
    sink.put("first", {})
    deadline = time.monotonic() + 30
    while not texts_in(folder)["decide.0.jsonl"]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (folder / "decide.0.jsonl").unlink()
    sink.put("second", {})
    sink.close()

    assert {"decide.0.jsonl": ["second"]} == texts_in(folder)


def test_what_cannot_be_removed_is_logged_and_holds_nothing_up(
    tmp_path: Path, losses: Losses, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other files go, and texts are written all the same."""
    folder = tmp_path / "raw"
    kept(folder, losses, "old")
    (folder / "decide.0.jsonl.7").mkdir()
    (folder / "decide.0.jsonl.8").touch()
    kept(folder, losses, "new", now_ms=lambda: NOW + AGE)

    assert "old raw texts cannot be removed" in capsys.readouterr().out
    (folder / "decide.0.jsonl.7").rmdir()
    assert {"decide.0.jsonl": ["new"]} == texts_in(folder)


# --- descriptors --------------------------------------------------------------------------------


def test_a_file_that_fails_to_close_is_never_written_to_again(
    tmp_path: Path, losses: Losses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be that of somebody else's file by then."""
    folder, sound, failing = tmp_path / "raw", os.close, threading.Event()
    closed: list[int] = []
    written: list[int] = []
    sound_write = os.write

    def close(descriptor: int) -> None:
        sound(descriptor)
        if failing.is_set() and descriptor == first:
            failing.clear()
            closed.append(descriptor)
            # Whoever opens something now gets the number.
            theirs.append(os.open(tmp_path / "theirs", os.O_RDWR | os.O_CREAT))
            raise OSError(errno.EDQUOT, "quota exceeded")

    def write(descriptor: int, data: Any) -> int:
        written.append(descriptor)
        return sound_write(descriptor, data)

    theirs: list[int] = []
    sink = opened(folder, losses, max_bytes=300)
    assert sink._file is not None
    first = sink._file._descriptor
    monkeypatch.setattr("turnstream.roles.raw_sink.os.close", close)
    monkeypatch.setattr("turnstream.roles.raw_sink.os.write", write)
    failing.set()
    for word in ("a", "b", "c"):
        sink.put(word * 200, {})
    sink.close()
    monkeypatch.undo()

    assert [first] == closed == theirs
    sound(theirs[0])
    assert "" == (tmp_path / "theirs").read_text("utf-8")
    assert 1 == losses.count
    assert {"decide.0.jsonl": ["c" * 200], "decide.0.jsonl.1": ["a" * 200]} == texts_in(folder)


@pytest.mark.parametrize("what", ["fchmod", "fstat", "flock"])
def test_no_descriptor_is_left_where_the_sink_cannot_be_opened(
    tmp_path: Path, losses: Losses, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A role that starts again and again would run out of them."""
    folder = tmp_path / "raw"
    opened(folder, losses).close()

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    module = "fcntl" if what == "flock" else "os"
    before = sorted(one.name for one in Path("/dev/fd").iterdir())
    monkeypatch.setattr(f"turnstream.roles.raw_sink.{module}.{what}", fail)
    with pytest.raises(RawSinkError, match="cannot be written"):
        opened(folder, losses)
    monkeypatch.undo()

    assert before == sorted(one.name for one in Path("/dev/fd").iterdir())


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
