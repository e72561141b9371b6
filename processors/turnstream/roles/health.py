"""What `/healthz` says of a role, and when it says that a restart is needed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnstream.core.definitions import Catalog, Tool
from turnstream.metrics import Heartbeat
from turnstream.stream import StreamSettings
from turnstream.stream.ownership import Ownership

_CLASSIFIER_SECONDS: Final = 30.0
"""More than a classifier is given: no role's handler may seem hung that only waits for its own."""


@dataclass(frozen=True)
class Health:
    """The health of a role's process.

    The page is bad, and a liveness probe restarts the process, only where a restart may help:

    - The event loop has not run for a while.
    - A lane has records in flight and has committed nothing for longer than the slowest handler
      and its commit can take (`stall_limit_seconds`). `Stalls` says what does not count: a
      rebalance, a broker that is away, records that wait for a schema or a newer version, a full
      house. A broker that comes back finds the process running, or ended by its own commit.

    How old the oldest unfinished record is stands on the page and decides nothing: after an outage
    it is old in every process that catches up, and a restart would only delay it. An alert looks at
    it.
    """

    heartbeat: Heartbeat
    ownership: Ownership[object]
    stall_limit_seconds: float
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def problems(self) -> Sequence[str]:
        """What is wrong, one line each."""
        found = list(self.heartbeat.problems())
        stalled = self.ownership.stalls.longest()
        if stalled > self.stall_limit_seconds:
            found.append(
                f"records are in flight and nothing was committed for {stalled:.0f} s, though a "
                f"handler and its commit take at most {self.stall_limit_seconds:.0f} s"
            )
        return found

    def facts(self) -> Mapping[str, float | None]:
        """Age of the oldest unfinished record in seconds, None without any; and of the commit."""
        oldest = self.ownership.oldest_unfinished()
        return {
            "oldest_unfinished_seconds": (
                None if oldest is None else max(0.0, round((self.now_ms() - oldest) / 1000, 1))
            ),
            "uncommitted_seconds": round(self.ownership.stalls.longest(), 1),
        }


def stall_limit(
    stream: StreamSettings,
    *,
    catalog: Catalog,
    decider_patience_seconds: float,
    decider_timeout_seconds: float,
) -> float:
    """The longest time in seconds from a record's start to its commit, whatever it waits for.

    Every wait of a handler has a limit of its own, so past their sum something hangs that no limit
    ends. It is the sum for any role: too long for some, and then a hang is found some minutes
    later, while too short would end processes that only have slow deciders or tools.

    Args:
        stream: attempts, back-off and the limit of a commit.
        catalog: whose tools are called.
        decider_patience_seconds: age of an input at which no other attempt is begun.
        decider_timeout_seconds: how long one attempt may take.
    """
    calls = (
        decider_patience_seconds + decider_timeout_seconds,
        _CLASSIFIER_SECONDS,
        *(_longest_call(tool) for tool in catalog.tools.values()),
    )
    commit = stream.request_timeout_ms / 1000
    back_off = stream.retry_backoff_max_ms / 1000
    # A handler may commit an intermediate state in each attempt, and the end is one more commit.
    return stream.attempts * (max(calls) + commit + back_off) + commit


def _longest_call(tool: Tool) -> float:
    policy = tool.retry
    wait = policy.max_backoff_seconds + policy.max_retry_after_seconds
    calls = policy.attempts * (tool.timeout_seconds + wait)
    if tool.binding.reconcile is None:
        return calls
    # Before: as long as the former call may be under way; then, and after it, as many questions.
    questions = policy.attempts * (tool.timeout_seconds + policy.max_backoff_seconds)
    return tool.timeout_seconds + calls + 2 * questions
