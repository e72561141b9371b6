"""The restricted sink of raw texts: what models and tools wrote where it could not be used.

Rejected arguments and invalid results say what is wrong with a model or a tool, and they are
customers' words. So they are in no log and no topic. Where a deployment asks for it they go, one
JSON object per line, to files that only the process's own user can read, in a folder of the same
kind. The newest are kept, up to a bound: an erased conversation is gone from here when newer texts
have taken its place.

Nothing waits for the sink. A thread writes; what it cannot write, or not fast enough, is counted
and lost. Each process writes to files of its own, so that two of a role can share a folder.
"""

import contextlib
import fcntl
import os
import queue
import stat
import threading
from collections.abc import Callable, Mapping
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


class RawSinkError(Exception):
    """The sink cannot be used as it is configured; the message says what to change."""


class RawSink:
    """Writes raw texts, and never holds anybody up."""

    def __init__(
        self, directory: Path, *, role: str, max_bytes: int, files: int, lost: Callable[[], None]
    ) -> None:
        """Open the sink.

        Args:
            directory: the folder; made where it does not exist.
            role: begins the names of the files.
            max_bytes: largest file.
            files: how many are kept, the present one included.
            lost: is told of each text that is not written, from any thread.

        Raises:
            RawSinkError: the folder is not this user's alone, or cannot be written.
        """
        _make_private(directory)
        try:
            self._lock, slot = _locked(directory, role)
            self._path = directory / f"{role}.{slot}.jsonl"
            self._file: _File | None = _File(self._path)
        except OSError as error:
            raise RawSinkError(
                f"raw_sink.directory: {directory} cannot be written ({error.strerror})"
            ) from error
        self._max_bytes = max_bytes
        self._files = files
        self._lost = lost
        self._failing = False
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._thread = threading.Thread(target=self._write_all, name="raw-sink", daemon=True)
        self._thread.start()

    def put(self, raw: str, about: Mapping[str, JsonValue]) -> None:
        """Keep a text; never raises and never waits.

        Args:
            raw: the text.
            about: what it is, and whose.
        """
        entry = {**about, "length": len(raw), "raw": raw[:RAW_CHARACTERS]}
        try:
            line = _line(entry)
            self._queue.put_nowait(line)
        except (queue.Full, TypeError, ValueError) as error:
            self._fail(error)

    def close(self) -> None:
        """Write what waits, for a few seconds at most, and end."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)

    def _write_all(self) -> None:
        while (line := self._queue.get()) is not None:
            try:
                self._write(line)
            except OSError as error:
                self._fail(error)
            else:
                self._failing = False
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()
        os.close(self._lock)

    def _write(self, line: bytes) -> None:
        file = self._file or _File(self._path)
        self._file = file
        if file.size and file.size + len(line) > self._max_bytes:
            file.close()
            self._file = None
            self._turn_over()
            file = self._file = _File(self._path)
        file.append(line)

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

    def _fail(self, error: Exception) -> None:
        self._lost()
        if not self._failing:
            # Once per trouble: a full disk would else fill the log as well.
            self._failing = True
            log.error("the raw sink cannot be written", error=type(error).__name__)


class _File:
    """A file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        os.fchmod(self._descriptor, 0o600)
        self.size = os.fstat(self._descriptor).st_size

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
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(directory / f"{role}.{slot}.lock", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        return descriptor, slot
    raise RawSinkError(f"raw_sink.directory: {directory} is in use by {_PROCESSES} processes")
