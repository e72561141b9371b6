"""Tests of turnstream.stream.offset_fetch: what a coordinator says that does not know yet."""

from collections import deque
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupLoadInProgressError,
    NotCoordinatorForGroupError,
)
from aiokafka.protocol.commit import OffsetFetchResponse_v1, OffsetFetchResponse_v3
from aiokafka.structs import TopicPartition

from turnstream.stream import offset_fetch
from turnstream.stream.offset_fetch import (
    _OffsetFetchResponse,
    any_committed,
    committed_offsets,
)

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer

FIRST, SECOND = TopicPartition("turns", 0), TopicPartition("turns", 1)
TOLD = [("turns", [(0, 12, "", 0), (1, -1, "", 0)])]


class Group:
    """A consumer and its coordinator in one, with the answers that it will give."""

    group_id = "group"

    def __init__(self, *answers: Any) -> None:
        self.answers = deque(answers)
        self.newest = 7
        self.asked: list[dict[str, Any]] = []
        self.found = 0
        self.lost = 0
        self._coordinator = self

    async def ensure_coordinator_known(self) -> None:
        """Count the looks."""
        self.found += 1

    def coordinator_dead(self) -> None:
        """Count the losses."""
        self.lost += 1

    async def _send_req(self, request: Any) -> Any:
        versions = {request.API_KEY: (1, self.newest)}
        self.asked.append(request.prepare(versions).to_object())
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
        found = await committed_offsets(Group(answer), [FIRST, SECOND], settled=False)

        assert {FIRST: 12, SECOND: None} == found

    found, _ = await told(stable((0, 12, 0), (1, -1, 0)))

    assert {FIRST: 12, SECOND: None} == found


async def test_a_coordinator_that_is_loading_has_not_said_that_nothing_is_committed() -> None:
    """Its answer names no partition, and an error for the group as a whole: it is asked again."""
    loading = OffsetFetchResponse_v3(0, [], GroupLoadInProgressError.errno)
    found, group = await told(loading, loading, stable((0, 12, 0), (1, -1, 0)))

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


UNSETTLED = 88
NO_EPOCH = -1


def stable(*partitions: tuple[int, int, int]) -> _OffsetFetchResponse:
    """The answer of today's brokers: partition, offset and error of each."""
    told: list[Any] = [
        (number, offset, NO_EPOCH, "", error, {}) for number, offset, error in partitions
    ]
    answer = BytesIO(_OffsetFetchResponse(0, [("turns", told, {})], 0, {}).encode())
    decoded: _OffsetFetchResponse = _OffsetFetchResponse.decode(answer)
    return decoded


async def test_an_offset_whose_transaction_has_not_ended_everywhere_is_waited_for() -> None:
    """The commit was acknowledged: its owner may be gone, and the next must not begin before it."""
    found, group = await told(
        stable((0, -1, UNSETTLED), (1, 7, 0)),
        stable((0, 12, 0), (1, -1, 0)),
    )

    assert {FIRST: 12, SECOND: None} == found
    assert [True, True] == [one["require_stable"] for one in group.asked]
    assert [[("turns", [0, 1], {})]] * 2 == [
        [(one["topic"], one["partitions"], one["tags"]) for one in each["topics"]]
        for each in group.asked
    ]


async def test_who_only_looks_on_waits_for_no_transaction() -> None:
    """A group that works has always some open."""
    group = Group(OffsetFetchResponse_v3(0, TOLD, 0))
    found = await committed_offsets(cast("AIOKafkaConsumer", group), [FIRST, SECOND], settled=False)

    assert {FIRST: 12, SECOND: None} == found
    assert "require_stable" not in group.asked[0]


async def test_brokers_that_know_no_settled_offsets_do_not_say_that_nothing_is_committed() -> None:
    """Before Kafka 2.5, and the embedded one, which never tells what a transaction committed."""
    group = Group(OffsetFetchResponse_v3(0, TOLD, 0))
    group.newest = 5
    found = await committed_offsets(cast("AIOKafkaConsumer", group), [FIRST, SECOND])

    assert {FIRST: 12} == found
    assert "require_stable" not in group.asked[0]


@pytest.mark.parametrize(
    ("settled", "answers", "expected"),
    [
        (False, [OffsetFetchResponse_v3(0, TOLD, 0)], True),
        (False, [OffsetFetchResponse_v3(0, [("turns", [(0, -1, "", 0)])], 0)], False),
        (True, [stable((0, -1, UNSETTLED), (1, 7, 0))], True),
        (True, [stable((0, -1, UNSETTLED), (1, -1, 0)), stable((0, 0, 0), (1, 0, 0))], True),
        (True, [stable((0, -1, UNSETTLED), (1, -1, 0)), stable((0, -1, 0), (1, -1, 0))], False),
    ],
)
async def test_whether_anything_is_committed(
    settled: bool, answers: list[Any], expected: bool
) -> None:
    """An open transaction is waited for as long as it may be the first to commit anything."""
    group = Group(*answers)
    found = await any_committed(cast("AIOKafkaConsumer", group), [FIRST, SECOND], settled=settled)

    assert expected == found
    assert not group.answers
