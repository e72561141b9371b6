"""What ``turnstream doctor`` has found: one line per thing looked at, and what to do about it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    status: Status
    """`warn`: works, or may not be needed here. `fail`: a role would not start or not work."""
    detail: str
    remedy: str = ""
    """What to do; empty where nothing is."""


def ok(check: str, detail: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", detail)


def warn(check: str, detail: str, remedy: str) -> Finding:
    """Something to know about."""
    return Finding(check, "warn", detail, remedy)


def fail(check: str, detail: str, remedy: str) -> Finding:
    """Something to mend."""
    return Finding(check, "fail", detail, remedy)


def failing(findings: Iterable[Finding]) -> bool:
    """Whether anything must be mended."""
    return any(one.status == "fail" for one in findings)
