"""Signals before there is anything to clean up."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

INTERRUPTED: Final = 130
"""Exit status of what Ctrl-C has ended, as shells have it."""


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Ctrl-C ends the process without a word while it only imports.

    As an exception it would be printed with a traceback, and callbacks of the import machinery
    print it and go on.
    """
    with _ending(signal.SIGINT, INTERRUPTED, instead_of=signal.default_int_handler):
        yield


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """SIGTERM ends the process well until whoever has something to finish takes the signal over.

    A role may wait long for brokers before it begins. Status 143 would look like a fault, and as
    the first process of a container it would not end at all: the kernel keeps the default from it.
    """
    with _ending(signal.SIGTERM, 0, instead_of=signal.SIG_DFL):
        yield


@contextmanager
def _ending(number: signal.Signals, status: int, *, instead_of: object) -> Iterator[None]:
    """Let a signal end the process with a status, where it has its usual handler."""
    before = signal.getsignal(number)
    if before is not instead_of:  # ignored, or handled by whoever runs us
        yield
        return

    def end(*_: object) -> NoReturn:
        os._exit(status)

    signal.signal(number, end)
    try:
        yield
    finally:
        signal.signal(number, before)
