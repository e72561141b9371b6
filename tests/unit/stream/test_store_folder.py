"""Files of partitions that moved away: kept for their return, and not for ever."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from turnstream.stream.changelog import Changelog
from turnstream.stream.rocks_store import open_records
from turnstream.stream.store_folder import folder_of, lock_folder, remove_abandoned

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000
KEPT_MS = 24 * HOUR_MS
CHANGELOG = Changelog("cluster", "changelog", "id", tombstones_kept_ms=KEPT_MS)


async def left(data_dir: Path, partition: int, *, hours: float, group: str = "group") -> Path:
    """Leave a partition's files behind, as if that had been some hours ago."""
    records = await open_records(group, partition, data_dir=str(data_dir), changelog=CHANGELOG)
    records.write({b"key": b"value"}, position=1, at=time.time_ns() // 1_000_000)
    records.close()
    folder = folder_of(partition, group=group, data_dir=str(data_dir))
    folder.with_suffix(".broken").write_text("found broken\n")
    age(folder, hours=hours)
    return folder


def age(folder: Path, *, hours: float) -> None:
    """Set the times of a partition's files back."""
    at = time.time() - hours * 3600
    for path in (*folder.iterdir(), folder, folder.with_suffix(".lock")):
        os.utime(path, (at, at))


async def removed(data_dir: Path, *, but: tuple[int, ...] = ()) -> list[Path]:
    """Remove what was left for too long."""
    return await remove_abandoned("group", data_dir=str(data_dir), but=but, kept_ms=KEPT_MS)


async def test_files_outlive_the_absence_that_a_return_can_make_use_of(tmp_path: Path) -> None:
    """One hour less than removals are kept, they stay; one more, and they go with their mark."""
    fresh = await left(tmp_path, 0, hours=23)
    old = await left(tmp_path, 1, hours=25)

    assert [old] == await removed(tmp_path)
    assert fresh.exists()
    # The lock stays: two processes could else hold two files of one name.
    assert {"0", "0.lock", "0.broken", "1.lock"} == {one.name for one in old.parent.iterdir()}
    assert [] == await removed(tmp_path)


async def test_what_is_about_to_be_opened_stays(tmp_path: Path) -> None:
    """Nothing may have been written to the partition since: it is then as good as ever."""
    mine = await left(tmp_path, 3, hours=100)

    assert [] == await removed(tmp_path, but=(3,))
    assert mine.exists()


async def test_what_another_process_uses_stays(tmp_path: Path) -> None:
    """However long ago it was opened, and written."""
    used = await left(tmp_path, 0, hours=100)
    with closing(await lock_folder(used, seconds=0)):
        age(used, hours=100)

        assert [] == await removed(tmp_path)

    assert used.exists()


async def test_giving_a_partition_up_counts_as_its_use(tmp_path: Path) -> None:
    """A partition in which nobody speaks was held for days, and left just now."""
    folder = await left(tmp_path, 0, hours=0)
    records = await open_records("group", 0, data_dir=str(tmp_path), changelog=CHANGELOG)
    age(folder, hours=100)
    records.close()

    assert [] == await removed(tmp_path)


async def test_files_of_others_stay(tmp_path: Path) -> None:
    """Another group's changelog may keep removals for longer; and what is no store is no matter."""
    other = await left(tmp_path, 0, hours=100, group="other")
    notes = other.parent.parent / "group" / "notes"
    notes.mkdir(parents=True)
    os.utime(notes, (0, 0))

    assert [] == await removed(tmp_path)
    assert other.exists()
    assert notes.exists()


async def test_a_host_without_any_files_has_none_to_remove(tmp_path: Path) -> None:
    """Its directory is made with the first store."""
    assert [] == await removed(tmp_path / "absent")


async def test_what_cannot_be_removed_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The role starts, and says which files are still there."""

    def refused(path: Path) -> None:
        raise PermissionError(13, "not permitted", str(path))

    old = await left(tmp_path, 0, hours=25)
    monkeypatch.setattr("turnstream.stream.store_folder.shutil.rmtree", refused)

    assert [] == await removed(tmp_path)
    assert f"the local store {old} cannot be removed" in caplog.text
