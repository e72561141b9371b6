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
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, or handled by whoever runs us
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """SIGTERM ends the process well until whoever has something to finish takes the signal over.

    A role may wait long for brokers before it begins. Status 143 would look like a fault, and as
    the first process of a container it would not end at all: the kernel keeps the default from it.
    """
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL:  # ignored, or handled by whoever runs us
        yield
        return
    signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(*_: object) -> NoReturn:
    os._exit(INTERRUPTED)


def _stop(*_: object) -> NoReturn:
    os._exit(0)
