"""Tests of turnstream.stream.offset_fetch: what a coordinator says that does not know yet."""

from collections import deque
from typing import Any

import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)
from aiokafka.protocol.commit import OffsetFetchResponse_v1, OffsetFetchResponse_v3
from aiokafka.structs import TopicPartition

from turnstream.stream import offset_fetch
from turnstream.stream.offset_fetch import committed_offsets

FIRST, SECOND = TopicPartition("turns", 0), TopicPartition("turns", 1)
TOLD = [("turns", [(0, 12, "", 0), (1, -1, "", 0)])]


class Group:
    """A consumer and its coordinator in one, with the answers that it will give."""

    group_id = "group"

    def __init__(self, *answers: Any) -> None:
        self.answers = deque(answers)
        self.found = 0
        self.lost = 0
        self._coordinator = self

    async def ensure_coordinator_known(self) -> None:
        """Count the looks."""
        self.found += 1

    def coordinator_dead(self) -> None:
        """Count the losses."""
        self.lost += 1

    async def _send_req(self, _: object) -> Any:
        return self.answers.popleft()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_fetch, "_RETRY_SECONDS", 0)


async def told(*answers: Any) -> tuple[Any, Group]:
    """What is read from answers, and the group that gave them."""
    group = Group(*answers)
    return await committed_offsets(group, [FIRST, SECOND]), group


async def test_what_is_committed_and_what_is_not() -> None:
    """A partition without an offset has none; in the form of old brokers as well."""
    for answer in (OffsetFetchResponse_v3(0, TOLD, 0), OffsetFetchResponse_v1(TOLD)):
        found, _ = await told(answer)

        assert {FIRST: 12, SECOND: None} == found


async def test_a_coordinator_that_is_loading_has_not_said_that_nothing_is_committed() -> None:
    """Its answer names no partition, and an error for the group as a whole: it is asked again."""
    loading = OffsetFetchResponse_v3(0, [], GroupLoadInProgressError.errno)
    found, group = await told(loading, loading, OffsetFetchResponse_v3(0, TOLD, 0))

    assert {FIRST: 12, SECOND: None} == found
    assert (3, 0) == (group.found, group.lost)


async def test_another_coordinator_is_looked_for_where_this_is_none_any_more() -> None:
    """Whether the group or a partition says so."""
    moved = NotCoordinatorForGroupError.errno
    found, group = await told(
        OffsetFetchResponse_v3(0, [], moved),
        OffsetFetchResponse_v3(0, [("turns", [(0, -1, "", moved), (1, -1, "", 0)])], 0),
        OffsetFetchResponse_v3(0, TOLD, 0),
    )

    assert 12 == found[FIRST]
    assert 2 == group.lost


async def test_who_may_not_know_is_told_so() -> None:
    """A refusal is no empty group."""
    with pytest.raises(GroupAuthorizationFailedError):
        await told(OffsetFetchResponse_v3(0, [], GroupAuthorizationFailedError.errno))
