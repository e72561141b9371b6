"""Where the store of a partition lies on this host's disk, and which process has it.

<data_dir>/<group>/<partition>/       its files
<data_dir>/<group>/<partition>.lock   held while a lane uses them; names the process that does
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from turnstream.stream.store import StoreFailed

if TYPE_CHECKING:
    from collections.abc import Collection
    from io import TextIOWrapper

logger = logging.getLogger(__name__)

LOCK_SECONDS: Final = 30.0
"""Wait for a process that is ending and still has the partition's files, longer than its grace and
its last commit: one that hangs must not keep the partition without an owner unnoticed."""

_POLL_SECONDS: Final = 0.1


def check_data_dir(data_dir: str) -> str | None:
    """Return what is wrong with a data directory, which is made if there is none."""
    try:
        Path(data_dir).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"cannot be made: {error}"
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        return "cannot be written by this process's user"
    return None


def folder_of(partition: int, *, group: str, data_dir: str) -> Path:
    """Return the directory of a partition's files."""
    name = quote(group, safe="")
    if not name.strip("."):
        # No group leads out of the directory.
        name = name.replace(".", "%2E")
    return Path(data_dir) / name / str(partition)


async def lock_folder(folder: Path, *, seconds: float) -> TextIOWrapper:
    """Take the lock of a partition; the system frees it when its holder ends, however it ends.

    Args:
        folder: That of the partition's files.
        seconds: How long another process may still have it.

    Raises:
        StoreFailed: Another process keeps it, or the disk is at fault.
    """
    path = folder.with_suffix(".lock")
    deadline = time.monotonic() + seconds
    told = False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Never removed: two processes could then hold two files of one name.
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise StoreFailed(
            f"the local store {folder} could not be opened: {error}. See that stream.data_dir can "
            f"be written and its disk has room"
        ) from error
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = text_of(path) or "unknown"
                if time.monotonic() >= deadline:
                    raise StoreFailed(
                        f"the local store {folder} is used by another process (pid {holder}), "
                        f"which did not end within {seconds:g} s. Processes of one host share "
                        f"stream.data_dir only if the former one ends: end it, or give each a "
                        f"directory of its own"
                    ) from error
                if not told:
                    logger.warning("waiting for process %s to leave %s", holder, folder)
                    told = True
                await asyncio.sleep(_POLL_SECONDS)
            else:
                break
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
    except OSError as error:
        file.close()
        raise StoreFailed(f"the lock {path} could not be written: {error}") from error
    except BaseException:
        file.close()
        raise
    return file


def release_folder(lock: TextIOWrapper) -> None:
    """Give up the lock of a partition, and leave behind when that was; may be called again."""
    if not lock.closed:
        with contextlib.suppress(OSError):
            os.utime(lock.fileno())
        lock.close()


async def remove_abandoned(
    group: str, *, data_dir: str, but: Collection[int], kept_ms: int
) -> list[Path]:
    """Remove the files of partitions that were away for longer than the changelog keeps removals.

    Should one come back it would be filled anew all the same, and until then what was erased
    elsewhere would be on this disk.

    Args:
        group: Whose files; those of others are left to them.
        data_dir: Directory of all stores on this host.
        but: Partitions that are about to be opened.
        kept_ms: How long the changelog keeps removals.

    Returns:
        The directories removed.
    """
    removed: list[Path] = []
    for folder in _folders(group, data_dir=data_dir):
        if int(folder.name) in but or _unused_ms(folder) <= kept_ms:
            continue
        try:
            lock = await lock_folder(folder, seconds=0)
        except StoreFailed:
            # Another process has it open.
            continue
        try:
            # Nothing is awaited while the files are going: a takeover that is given up must not
            # leave half of them to somebody else.
            if _unused_ms(folder, but_for_its_lock=True) > kept_ms:
                shutil.rmtree(folder)
                folder.with_suffix(".broken").unlink(missing_ok=True)
                removed.append(folder)
        except OSError as error:
            logger.warning("the local store %s cannot be removed: %s", folder, error)
        finally:
            lock.close()
    for folder in removed:
        logger.info(
            "removed the local store %s: its partition was away for longer than the changelog "
            "keeps removals (delete.retention.ms, %.1f h)",
            folder,
            kept_ms / 3_600_000,
        )
    return removed


def _folders(group: str, *, data_dir: str) -> list[Path]:
    """Return the directories of a group's partitions on this host."""
    parent = folder_of(0, group=group, data_dir=data_dir).parent
    try:
        return [one for one in parent.iterdir() if one.name.isdecimal() and one.is_dir()]
    except OSError:
        return []


def _unused_ms(folder: Path, *, but_for_its_lock: bool = False) -> int:
    """Return how long ago a partition's files were last written, opened or given up."""
    lock = folder.with_suffix(".lock")
    locks = [lock] if lock.exists() and not but_for_its_lock else []
    try:
        latest = max(path.stat().st_mtime for path in (folder, *locks, *folder.iterdir()))
    except OSError:
        # What goes away while it is looked at is in use.
        return 0
    return int((time.time() - latest) * 1000)


def text_of(path: Path) -> str:
    """Return what a small file says, nothing where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
