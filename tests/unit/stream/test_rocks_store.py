"""A store on disk across processes: what it finds again, and what it does not trust."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turnstream.stream import rocks_layout, rocks_store
from turnstream.stream.changelog import Changelog
from turnstream.stream.imprint import IMPRINT_KEY
from turnstream.stream.restore import RestoredState, check_store
from turnstream.stream.rocks_store import RocksRecords, open_records
from turnstream.stream.role import StartRefused
from turnstream.stream.store import StoreFailed

from .lane_fakes import record, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR_MS = 3_600_000
CHANGELOG = Changelog("cluster", "changelog", "id", tombstones_kept_ms=24 * HOUR_MS)
SOURCE_ROOT = Path(__file__).parents[3] / "processors"
NOW_MS = 1_800_000_000_000


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time that stores see, in its one element."""
    now = [NOW_MS]
    monkeypatch.setattr(rocks_store, "_now_ms", lambda: now[0])
    return now


async def opened(
    folder: Path,
    *,
    group: str = "group",
    partition: int = 0,
    changelog: Changelog = CHANGELOG,
    lock_seconds: float = 0.3,
) -> RocksRecords:
    """Open a store."""
    return await open_records(
        group, partition, data_dir=str(folder), changelog=changelog, lock_seconds=lock_seconds
    )


async def filled(folder: Path) -> None:
    """Leave a store with two records behind, up to date now."""
    records = await opened(folder)
    records.write({b"a": b"1", b"b": b"2"}, position=10, at=NOW_MS)
    records.close()


def names(folder: Path) -> list[str]:
    """What is in a directory."""
    return [each.name for each in folder.iterdir()]


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The errors logged."""
    return [one.getMessage() for one in caplog.records if one.levelname == "ERROR"]


async def test_a_partition_that_comes_back_finds_its_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Giving a partition up keeps the files; only what is new is then to be read."""
    await filled(tmp_path)
    records = await opened(tmp_path)

    assert 10 == records.position
    assert {b"a": b"1", b"b": b"2"} == dict(records.items())
    assert [] == complaints(caplog)

    records.close()


async def test_what_the_changelog_says_of_itself_is_found_again(tmp_path: Path) -> None:
    """A restart does not read it once more: its record lies before the position."""
    records = await opened(tmp_path)
    state = RestoredState(records)
    state.apply(
        [record(0, key=IMPRINT_KEY, value=b"said"), record(1, key=b"a", value=b"1")], position=2
    )
    records.close()
    records = await opened(tmp_path)

    assert b"said" == records.imprint
    assert 2 == records.position
    assert {b"a": b"1"} == dict(records.items())

    records.write({}, position=4, imprint=b"")
    records.close()
    records = await opened(tmp_path)

    assert records.imprint is None

    records.close()


async def test_a_scan_given_up_does_not_keep_the_files(tmp_path: Path) -> None:
    """A partition may be revoked while its state is read, and come back at once."""
    await filled(tmp_path)
    records = await opened(tmp_path)
    scan = records.items()
    next(scan)
    scan.close()
    records.close()
    records = await opened(tmp_path)

    assert 2 == len(records)

    records.close()


async def test_each_group_and_partition_has_files_of_its_own(tmp_path: Path) -> None:
    """Roles that share a directory do not see each other, and no name leads out of it."""
    opened_ones = [
        await opened(tmp_path, group=group, partition=partition)
        for group in ("one", "two.x", "..", "a/b")
        for partition in (0, 1)
    ]
    for number, records in enumerate(opened_ones):
        records.write({b"k": b"%d" % number})

    assert [b"%d" % number for number in range(8)] == [each.get(b"k") for each in opened_ones]
    assert ["%2E%2E", "a%2Fb", "one", "two.x"] == sorted(names(tmp_path))

    for records in opened_ones:
        records.close()


@pytest.mark.parametrize(
    "other",
    [
        replace(CHANGELOG, cluster_id="another"),
        replace(CHANGELOG, topic_id="recreated"),
        replace(CHANGELOG, topic="renamed"),
    ],
)
async def test_store_of_another_changelog_is_rebuilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, other: Changelog
) -> None:
    """A topic that was created again, or one of another cluster, has other records."""
    await filled(tmp_path)
    records = await opened(tmp_path, changelog=other)

    assert records.position is None
    assert [] == list(records.items())
    (line,) = complaints(caplog)
    assert "emptied and filled again" in line
    assert "it belongs to" in line

    records.close()


async def test_store_of_another_format_is_rebuilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older or newer program laid the files out in another way."""
    await filled(tmp_path)
    monkeypatch.setattr(rocks_layout, "FORMAT", rocks_layout.FORMAT + 1)
    records = await opened(tmp_path)

    assert records.position is None
    assert 1 == len(complaints(caplog))

    records.close()


@pytest.mark.parametrize(
    ("hours", "trusted"), [(0.0, True), (22.9, True), (23.1, False), (-0.9, True), (-1.1, False)]
)
async def test_store_older_than_the_changelogs_tombstones_is_rebuilt(
    tmp_path: Path, clock: list[int], hours: float, trusted: bool
) -> None:
    """A removal that it missed may be gone from the changelog, and the record would come back."""
    await filled(tmp_path)
    clock[0] += int(hours * HOUR_MS)
    state = RestoredState(await opened(tmp_path))

    assert (10 if trusted else 0) == state.resume(beginning=0, end=12)
    assert (2 if trusted else 0) == len(state.records)

    state.records.close()


@pytest.mark.parametrize("end", [10, 11])
async def test_an_old_store_is_good_where_nothing_was_written_since(
    tmp_path: Path, clock: list[int], caplog: pytest.LogCaptureFixture, end: int
) -> None:
    """Nobody has spoken over the weekend: on Monday only the last transaction's marker is new."""
    await filled(tmp_path)
    clock[0] += 60 * HOUR_MS
    state = RestoredState(await opened(tmp_path))

    assert 10 == state.resume(beginning=0, end=end)
    assert 2 == len(state.records)
    assert [] == caplog.records

    state.records.write({}, position=end, at=clock[0])

    assert state.records.doubt is None

    state.records.close()


async def test_a_restore_that_was_interrupted_does_not_make_a_store_younger(
    tmp_path: Path, clock: list[int]
) -> None:
    """Only the end of the changelog, or a commit, proves that no removal was missed."""
    await filled(tmp_path)
    clock[0] += 20 * HOUR_MS
    records = await opened(tmp_path)
    records.write({b"c": b"3"}, position=20)
    records.close()
    clock[0] += 10 * HOUR_MS
    state = RestoredState(await opened(tmp_path))

    assert 0 == state.resume(beginning=0, end=30)
    assert 0 == len(state.records)

    state.records.close()


async def test_an_old_store_without_a_position_is_rebuilt_too(
    tmp_path: Path, clock: list[int]
) -> None:
    """The broker told no offsets before it was left: what it has may have been removed since."""
    records = await opened(tmp_path)
    records.write({b"a": b"1"}, at=NOW_MS)
    records.close()
    clock[0] += 30 * HOUR_MS
    state = RestoredState(await opened(tmp_path))

    assert 0 == state.resume(beginning=0, end=30)
    assert 0 == len(state.records)

    state.records.close()


@pytest.mark.parametrize(
    ("beginning", "end", "expected"),
    [(0, 10, 10), (0, 25, 10), (10, 10, 10), (0, 9, 0), (11, 30, 11)],
)
async def test_store_that_is_not_within_the_changelog_is_rebuilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, beginning: int, end: int, expected: int
) -> None:
    """One ahead of it or behind its beginning is emptied; all others go on from their position."""
    await filled(tmp_path)
    state = RestoredState(await opened(tmp_path))

    assert expected == state.resume(beginning=beginning, end=end)
    trusted = expected == 10
    assert (2 if trusted else 0) == len(state.records)
    assert (0 if trusted else 1) == len(complaints(caplog))

    state.apply([record(expected, key=b"a", value=None)], position=expected + 1)

    assert expected + 1 == state.records.position
    assert state.records.get(b"a") is None

    state.records.close()


async def test_broken_files_are_rebuilt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever cannot be opened is emptied: the changelog has everything."""
    await filled(tmp_path)
    (tmp_path / "group" / "0" / "CURRENT").write_text("nonsense\n")
    records = await opened(tmp_path)

    assert records.position is None
    assert 1 == len(complaints(caplog))

    records.write({b"a": b"1"}, position=1)

    assert b"1" == records.get(b"a")

    records.close()


async def test_records_found_broken_while_in_use_are_rebuilt_at_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The process ends, for it cannot know the state; the next one does not meet them again."""
    records = await opened(tmp_path)
    records.write({b"%d" % n: os.urandom(1_000) for n in range(5_000)}, position=5_000, at=NOW_MS)
    records.close()
    for file in (tmp_path / "group" / "0").glob("*.sst"):
        content = bytearray(file.read_bytes())
        content[200_000:260_000] = bytes(60_000)
        file.write_bytes(content)
    records = await opened(tmp_path)
    with pytest.raises(StoreFailed, match="all of it is in the changelog"):
        list(records.items())
    records.close()
    caplog.clear()
    records = await opened(tmp_path)

    assert records.position is None
    assert [] == list(records.items())
    (line,) = complaints(caplog)
    assert "found broken: Corruption" in line

    records.close()

    assert not (tmp_path / "group" / "0.broken").exists()


# Other processes.


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the store open and writes to it for ever, one batch a line."""
    script = f"""
import asyncio, itertools, resource, sys
from turnstream.stream.changelog import Changelog
from turnstream.stream.rocks_store import open_records
from turnstream.stream.store import StoreFailed
changelog = Changelog("cluster", "changelog", "id", tombstones_kept_ms={24 * HOUR_MS})
records = asyncio.run(open_records("group", 0, data_dir=sys.argv[1], changelog=changelog))
print("open", flush=True)
for line in sys.stdin:
    if line.startswith("limit"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    for number in itertools.count():
        changes = {{b"%d" % key: b"%d" % number * 500 for key in range(20)}}
        try:
            records.write(changes, position=number, at={NOW_MS})
        except StoreFailed as error:
            print(error, flush=True)
            break
        if number == 50:
            print("writing", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    """The next line of a process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    """Give a process a line."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def values(records: RocksRecords) -> set[bytes]:
    """The numbers that the keys were last written with."""
    return {value[: len(value) // 500] for _, value in records.items()}


async def test_a_store_that_another_process_keeps_is_named_after_a_while(
    tmp_path: Path, child: subprocess.Popen[str]
) -> None:
    """A hanging process must not keep a partition without an owner, and without a word."""
    assert "open" == said(child)
    with pytest.raises(StoreFailed, match=rf"pid {child.pid}\).*end it, or give each"):
        await opened(tmp_path)


async def test_a_store_whose_process_is_ending_is_waited_for(
    tmp_path: Path, child: subprocess.Popen[str]
) -> None:
    """A restart on the same host may overlap with the end of the former process."""
    assert "open" == said(child)
    opening = asyncio.create_task(opened(tmp_path, lock_seconds=30))
    await asyncio.sleep(0)
    child.send_signal(signal.SIGKILL)
    records = await opening

    assert records.position is None

    records.close()


async def test_a_killed_process_leaves_records_and_position_of_one_moment(
    tmp_path: Path, child: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Records and position are one batch: no kill comes between them."""
    assert "open" == said(child)
    tell(child, "write")
    assert "writing" == said(child)
    child.kill()
    child.wait()
    records = await opened(tmp_path)

    assert records.position is not None
    assert records.position >= 50
    assert {b"%d" % records.position} == values(records)
    assert [] == complaints(caplog)

    records.close()


async def test_a_full_disk_ends_the_process_and_leaves_a_state_that_was(
    tmp_path: Path, child: subprocess.Popen[str]
) -> None:
    """What to do is in the message; the next start reads the rest from the changelog."""
    assert "open" == said(child)
    tell(child, "limit")
    assert "writing" == said(child)
    message = said(child)
    assert "could not be written: IO error" in message
    assert "See that the disk works and has room" in message
    child.kill()
    child.wait()
    records = await opened(tmp_path)

    assert records.position is not None
    assert {b"%d" % records.position} == values(records)

    records.close()


# Before the start.


def test_a_directory_that_cannot_be_made_refuses_the_start(tmp_path: Path) -> None:
    """It is said before the group is joined."""
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(StartRefused, match=r"stream\.data_dir"):
        check_store(settings(store="rocksdict", data_dir=str(file / "below")))


def test_a_missing_package_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the extra that has it."""
    monkeypatch.setitem(sys.modules, "turnstream.stream.rocks_store", None)
    with pytest.raises(StartRefused, match=r"turnstream\[rocksdb\]"):
        check_store(settings(store="rocksdict", data_dir=str(tmp_path)))
    check_store(settings())


def test_store_on_disk_needs_a_directory() -> None:
    """Settings that contradict each other are refused where they are made."""
    with pytest.raises(ValueError, match="data_dir"):
        settings(store="rocksdict")


async def test_lock_file_names_its_process(tmp_path: Path) -> None:
    """Whoever finds the store in use can see by whom."""
    records = await opened(tmp_path)

    assert os.getpid() == json.loads((tmp_path / "group" / "0.lock").read_text())

    records.close()
