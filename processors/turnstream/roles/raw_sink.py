"""The restricted sink of raw texts: what models and tools wrote where it could not be used.

Rejected arguments and invalid results say what is wrong with a model or a tool, and they are
customers' words. So they are in no log and no topic. Where a deployment asks for it they go, one
JSON object per line, to files that only the process's own user can read, in a folder of the same
kind. The newest are kept, up to a size and an age: an erased conversation is gone from here by then
at the latest.

Nothing waits for the sink. A thread writes; what it cannot write, or not fast enough, is counted
and lost. Each process writes to files of its own, so that two of a role can share a folder. What
others have left there, who are no longer running, is removed by age as well.
"""

import contextlib
import fcntl
import os
import queue
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import orjson
import structlog
from pydantic import JsonValue

log = structlog.get_logger(__name__)

RAW_CHARACTERS: Final = 65_536
"""Most of one text that is kept: a model that writes without end would push out all others."""

_WAITING: Final = 256
"""Texts that may wait for the disk: a disk that hangs must not fill the memory."""

_CLOSE_SECONDS: Final = 5.0
"""Longest wait at the end for what is not written yet: a hanging disk must not hold the stop up."""

_PROCESSES: Final = 256
"""Most processes of a role in one folder; beyond it something else holds the locks."""

_LOOK_SECONDS: Final = 600.0
"""Longest time between two looks for old texts: what one stays beyond its age at most."""

_NAME: Final = re.compile(r"(?P<place>[a-z]+\.[0-9]+)\.jsonl(?:\.(?P<number>[0-9]+))?", re.ASCII)
"""A file of the sink: role and slot, and a number where it is not the one that is written to."""

_BEGINNING: Final = re.compile(rb'\{"at":([0-9]{1,15})[,}]')
"""How each line begins: with the time of its text, milliseconds UTC."""


class RawSinkError(Exception):
    """The sink cannot be used as it is configured; the message says what to change."""


class RawSink:
    """Writes raw texts, and never holds anybody up."""

    def __init__(
        self,
        directory: Path,
        *,
        role: str,
        max_bytes: int,
        files: int,
        max_age_seconds: float,
        lost: Callable[[], None],
        now_ms: Callable[[], int],
    ) -> None:
        """Open the sink.

        Args:
            directory: the folder; made where it does not exist.
            role: begins the names of the files.
            max_bytes: largest file.
            files: how many are kept, the present one included.
            max_age_seconds: how long a text is kept.
            lost: is told of each text that is not written, from any thread.
            now_ms: the wall clock, for any thread.

        Raises:
            RawSinkError: the folder is not this user's alone, or cannot be written.
        """
        _make_private(directory)
        try:
            self._lock, slot = _locked(directory, role)
            self._path = directory / f"{role}.{slot}.jsonl"
            try:
                self._file: _File | None = _File(self._path)
            except OSError:
                os.close(self._lock)
                raise
        except OSError as error:
            raise RawSinkError(
                f"raw_sink.directory: {directory} cannot be written ({error.strerror})"
            ) from error
        self._max_bytes = max_bytes
        self._files = files
        self._max_age_ms = int(max_age_seconds * 1000)
        self._lost = lost
        self._now_ms = now_ms
        self._failing = False
        self._closed = False
        self._closing = threading.Lock()
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._write_all, name="raw-sink", daemon=True)
        self._thread.start()

    def put(self, raw: str, about: Mapping[str, JsonValue]) -> None:
        """Keep a text; never raises and never waits.

        Args:
            raw: the text.
            about: what it is, and whose.
        """
        kept = raw[:RAW_CHARACTERS]
        entry = {"at": self._now_ms(), **about, "length": len(raw), "raw": kept}
        try:
            line = _line(entry)
            # Under a lock: what is put after the last look into the queue would never be missed.
            with self._closing:
                if not self._closed:
                    self._queue.put_nowait(line)
                    return
        except (queue.Full, TypeError, ValueError) as error:
            self._fail(type(error).__name__)
        else:
            self._fail("Closed")

    def close(self) -> None:
        """Write what waits, for a few seconds at most, and end."""
        with self._closing:
            self._closed = True
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            self._give_up()

    def _give_up(self) -> None:
        """Count what still waits for a disk that hangs; should it go on, the thread ends."""
        with contextlib.suppress(queue.Empty):
            while True:
                if self._queue.get_nowait() is not None:
                    self._fail("TimeoutError")
        self._queue.put_nowait(None)

    # --- in the thread --------------------------------------------------------------------------

    def _write_all(self) -> None:
        look_at = time.monotonic()
        while True:
            if time.monotonic() >= look_at:
                self._remove_old()
                look_at = time.monotonic() + min(_LOOK_SECONDS, self._max_age_ms / 1000)
            try:
                line = self._queue.get(timeout=max(look_at - time.monotonic(), 0.0))
            except queue.Empty:
                continue
            if line is None:
                break
            try:
                self._write(line)
            except OSError as error:
                self._fail(type(error).__name__)
            else:
                self._failing = False
        with contextlib.suppress(OSError):
            self._end_file()
        os.close(self._lock)

    def _write(self, line: bytes) -> None:
        file = self._file or _File(self._path)
        self._file = file
        full = file.size + len(line) > self._max_bytes
        # A file has a part of the age: the last text in it goes with the first.
        if file.size and (full or self._is_older(self._path, self._max_age_ms / self._files)):
            self._end_file()
            self._turn_over()
            file = self._file = _File(self._path)
        file.append(line)

    def _end_file(self) -> None:
        # Forgotten first: closed or not, its number may soon be that of somebody else's file.
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _turn_over(self) -> None:
        """Number the files anew; the oldest goes."""
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number)
            with contextlib.suppress(FileNotFoundError):
                self._numbered(number - 1).replace(older)
        if self._files == 1:
            self._path.unlink(missing_ok=True)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _remove_old(self) -> None:
        """Remove what is too old, and of one's own what is more than is kept."""
        try:
            found = sorted(self._path.parent.iterdir())
        except OSError as error:
            _cannot_remove(error)
            return
        own = self._path.name.removesuffix(".jsonl")
        for path in found:
            name = _NAME.fullmatch(path.name)
            if name is None:
                continue
            try:
                if name["place"] == own:
                    self._remove_own(path, number=int(name["number"] or 0))
                elif self._is_older(path, self._max_age_ms):
                    self._remove_left(path, lock=path.with_name(f"{name['place']}.lock"))
            except OSError as error:
                _cannot_remove(error)

    def _remove_own(self, path: Path, *, number: int) -> None:
        if number < self._files and not self._is_older(path, self._max_age_ms):
            return
        if number == 0:
            self._end_file()
        path.unlink(missing_ok=True)

    def _remove_left(self, path: Path, *, lock: Path) -> None:
        """Remove a file of another process, unless that still runs and does so itself."""
        with _unused(lock) as unused:
            if unused and self._is_older(path, self._max_age_ms):
                path.unlink(missing_ok=True)

    def _is_older(self, path: Path, age_ms: float) -> bool:
        """Whether the first text of a file is; one that somebody has removed is as old as any."""
        try:
            return self._now_ms() - _begun(path) >= age_ms
        except FileNotFoundError:
            return True

    def _fail(self, why: str) -> None:
        self._lost()
        if not self._failing:
            # Once per trouble: a full disk would else fill the log as well.
            self._failing = True
            log.error("the raw sink cannot be written", error=why)


class _File:
    """A file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        try:
            os.fchmod(self._descriptor, 0o600)
            self.size = os.fstat(self._descriptor).st_size
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, line: bytes) -> None:
        """Add a line, whole or not at all."""
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(line)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


def _begun(path: Path) -> int:
    """Time of a file's first text; where it does not say so, of its last. Milliseconds UTC."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        told = _BEGINNING.match(os.read(descriptor, 32))
        return int(told[1] if told is not None else os.fstat(descriptor).st_mtime * 1000)
    finally:
        os.close(descriptor)


def _line(entry: Mapping[str, JsonValue]) -> bytes:
    try:
        return orjson.dumps(entry) + b"\n"
    except TypeError:
        # Half characters, which a model may write and UTF-8 does not have.
        raw = str(entry["raw"]).encode(errors="replace").decode()
        return orjson.dumps({**entry, "raw": raw}) + b"\n"


def _make_private(directory: Path) -> None:
    """Make a folder, or see that it is this user's alone.

    Raises:
        RawSinkError: it is not.
    """
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        found = directory.lstat()
    except OSError as error:
        raise RawSinkError(
            f"raw_sink.directory: {directory} cannot be made ({error.strerror})"
        ) from error
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    if not private or found.st_uid != os.geteuid():
        raise RawSinkError(
            f"raw_sink.directory: {directory} must be a folder of this process's user that nobody "
            "else may read (chmod 700); name one inside a mounted volume, and it is made like that"
        )


def _locked(directory: Path, role: str) -> tuple[int, int]:
    """The lock of the first number that no other process of the role uses."""
    for slot in range(_PROCESSES):
        descriptor = _lock(directory / f"{role}.{slot}.lock")
        if descriptor is not None:
            return descriptor, slot
    raise RawSinkError(f"raw_sink.directory: {directory} is in use by {_PROCESSES} processes")


@contextlib.contextmanager
def _unused(lock: Path) -> Iterator[bool]:
    """Whether no process uses the files of a lock; meanwhile none begins to."""
    descriptor = _lock(lock)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _lock(path: Path) -> int | None:
    """Take a lock that is held until its descriptor is closed; None where another holds it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _cannot_remove(error: OSError) -> None:
    log.error("old raw texts cannot be removed", error=type(error).__name__)
