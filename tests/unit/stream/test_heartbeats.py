"""How sure a process may be that its partitions are its own."""

import time
from typing import Any, cast

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.protocol.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from turnstream.stream.heartbeats import Heartbeats, passed_seconds
from turnstream.stream.role import OwnershipUncertain

from .lane_fakes import Bench, settings


class Reply:
    """A coordinator's reply."""

    def __init__(self, error_code: int) -> None:
        self.error_code = error_code


class Coordinator:
    """Replies as told, a second after it was asked."""

    def __init__(self) -> None:
        self.now = 100.0
        self.code = 0
        self.down = False

    def clock(self) -> float:
        """The time."""
        return self.now

    async def _send_req(self, request: Any) -> Reply:
        self.now += 1
        if self.down:
            raise GroupCoordinatorNotAvailableError
        return Reply(self.code)


def followed() -> tuple[Coordinator, Heartbeats]:
    """A coordinator and what is known of it."""
    coordinator = Coordinator()
    heartbeats = Heartbeats(clock=coordinator.clock)
    heartbeats.follow(cast("GroupCoordinator", coordinator))
    return coordinator, heartbeats


def heartbeat() -> HeartbeatRequest:
    """A heartbeat."""
    return HeartbeatRequest("group", 1, "member")


async def test_a_session_is_counted_from_the_sending() -> None:
    """A reply that was read late, after a suspension say, makes nobody surer."""
    coordinator, heartbeats = followed()

    assert float("inf") == heartbeats.age()

    await coordinator._send_req(heartbeat())

    assert 1 == heartbeats.age()
    coordinator.now += 5
    assert 6 == heartbeats.age()


async def test_joining_counts_like_a_heartbeat() -> None:
    """The coordinator begins a session when it hands out the partitions."""
    coordinator, heartbeats = followed()
    await coordinator._send_req(SyncGroupRequest("group", 1, "member", None, []))

    assert 1 == heartbeats.age()


@pytest.mark.parametrize(("code", "alive"), [(0, True), (27, True), (25, False), (22, False)])
async def test_only_a_member_is_kept_alive(code: int, alive: bool) -> None:
    """Unknown members and old generations have no session; a rebalance waits for its members."""
    coordinator, heartbeats = followed()
    coordinator.code = code
    await coordinator._send_req(heartbeat())

    assert alive == (heartbeats.age() == 1)


def join() -> JoinGroupRequest:
    """A member joins again."""
    return JoinGroupRequest("group", 1_000, 1_000, "member", "a", "consumer", [])


@pytest.mark.parametrize("code", [25, 82])
@pytest.mark.parametrize(
    "request_",
    [heartbeat(), SyncGroupRequest("group", 1, "member", "a", []), join()],
    ids=lambda one: type(one).__name__,
)
async def test_a_place_lost_within_the_session_is_anothers(code: int, request_: Any) -> None:
    """Nobody else loses it: after a session it is lost for another reason, and so it is before one.

    Other replies and other requests say nothing of it.
    """
    coordinator = Coordinator()
    heartbeats = Heartbeats(clock=coordinator.clock)
    told: list[float] = []
    heartbeats.follow(
        cast("GroupCoordinator", coordinator),
        session_seconds=10,
        ousted=lambda: told.append(coordinator.now),
    )
    coordinator.code = code
    await coordinator._send_req(request_)
    coordinator.code = 0
    await coordinator._send_req(heartbeat())
    coordinator.code = 22
    await coordinator._send_req(request_)
    coordinator.code = code
    await coordinator._send_req(LeaveGroupRequest("group", "member"))

    assert [] == told

    await coordinator._send_req(request_)

    assert [coordinator.now] == told

    coordinator.now += 10
    await coordinator._send_req(request_)

    assert 1 == len(told)


async def test_no_reply_and_other_requests_say_nothing() -> None:
    """A coordinator that is gone, or a member that leaves."""
    coordinator, heartbeats = followed()
    await coordinator._send_req(LeaveGroupRequest("group", "member"))
    coordinator.down = True
    with pytest.raises(GroupCoordinatorNotAvailableError):
        await coordinator._send_req(heartbeat())

    assert float("inf") == heartbeats.age()


class Client:
    """A consumer's connections to its brokers."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator

    async def send(self, node: int, request: Any, *, group: int = 0) -> Reply:
        """Send to a node."""
        return await self.coordinator._send_req((node, request, group))


async def test_any_answer_of_a_broker_ends_its_silence() -> None:
    """Also one that refuses; none does not. The start has asked them, so it counts as one."""
    coordinator = Coordinator()
    heartbeats = Heartbeats(clock=coordinator.clock)
    client = Client(coordinator)
    heartbeats.listen(cast("AIOKafkaClient", client))
    coordinator.now += 7
    silences = [heartbeats.silence()]
    coordinator.code = 25
    await client.send(1, heartbeat(), group=1)
    silences.append(heartbeats.silence())
    coordinator.down = True
    with pytest.raises(GroupCoordinatorNotAvailableError):
        await client.send(1, heartbeat())
    silences.append(heartbeats.silence())

    assert [7, 0, 1] == silences
    assert float("inf") == heartbeats.age()


async def test_a_lane_ends_the_process_when_the_coordinator_is_silent() -> None:
    """Three quarters of the session are sure; after that nothing may be done outside."""
    now = 0.0
    bench = Bench(settings=settings(session_timeout_ms=10_000, heartbeat_interval_ms=1_000))
    lane = bench.lane(heartbeats=Heartbeats(clock=lambda: now))
    heartbeats = lane._role.heartbeats
    with pytest.raises(OwnershipUncertain, match="inf s ago"):
        lane.ensure_owned()

    heartbeats.answered(0.0)
    now = 7.4
    lane.ensure_owned()

    now = 7.5
    with pytest.raises(OwnershipUncertain, match=r"sent 7\.5 s ago.*after 7\.5 s: partition 0"):
        lane.ensure_owned()
    assert [OwnershipUncertain] * 2 == [type(error) for error in bench.failures.errors]


@pytest.mark.skipif(
    not hasattr(time, "CLOCK_BOOTTIME"),
    reason="every clock of this platform stands still while the machine is suspended",
)
def test_a_suspended_machine_is_no_owner_and_no_broker_is_silent_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The session ends while it sleeps; but nobody asked a broker meanwhile."""
    clocks = {time.CLOCK_BOOTTIME: 100.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    heartbeats = Heartbeats()
    heartbeats.answered(passed_seconds())
    clocks[time.CLOCK_BOOTTIME] += 3_600

    assert 3_600 == heartbeats.age()
    assert 0 == heartbeats.silence()


def test_a_platform_without_that_clock_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still while the machine sleeps, and is right otherwise."""
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)

    assert 7 == passed_seconds()
