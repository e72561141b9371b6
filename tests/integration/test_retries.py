"""What fails for a while holds back its own conversation, keeps its order, and comes to an end.

Real processes on a real broker.
"""

from pathlib import Path
from typing import Any

from tests.integration.deployed import Deployed, RoleProcess, deployed, now_ms, turn, until
from tests.unreliable import DOWN, ENDLESS, NAMELESS
from turnstream.core.publications import ActionEvent, Outcome, ShadowComparison

TURNS = "conversation.turns"
FIRST = {"topic": TURNS, "partition": "0"}


def changes(folder: Path, *, stream: dict[str, Any] | None = None, **decide: Any) -> dict[str, Any]:
    """A deployment whose decider is back when the folder's file `back` exists."""
    options = {"back": str(folder / "back")}
    target = "tests.unreliable:unreliable"
    return {
        "deciders": {"by_word": {"kind": "python", "target": target, "options": options}},
        "shadow": {"decider": "by_word"},
        "stream": {"session_timeout_seconds": 6, **(stream or {})},
        "decide": decide,
    }


async def actions(on: Deployed) -> dict[tuple[int, int], ActionEvent]:
    """The action of each turn that has one; there is never a second."""
    found: dict[tuple[int, int], ActionEvent] = {}
    for one in await on.events(ActionEvent):
        place = one.source.partition, one.source.offset
        assert place not in found
        found[place] = one
    return found


async def decided(on: Deployed, role: RoleProcess, *places: tuple[int, int]) -> None:
    """Wait until there is an action for each of these turns."""

    async def all_there() -> bool:
        return set(places) <= (await actions(on)).keys()

    await until(all_there, role.text)


async def test_a_turn_whose_decider_is_down_keeps_its_place_and_holds_back_no_other(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Others are decided meanwhile; the next turn does not overtake it, through a kill -9."""
    settings = changes(
        tmp_path,
        decider_attempts=10,
        decider_backoff_seconds=5,
        decider_backoff_max_seconds=5,
        decider_breaker_failures=1000,
    )
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, **settings) as on:
        waiting, other = on.key_on(0, "waiting"), on.key_on(0, "other")
        first = await on.send(turn(waiting, f"Are you {DOWN}?", turn_id="t-1"))
        second = await on.send(turn(waiting, "Hello?", turn_id="t-2"))
        beside = await on.send(turn(other, "Hello", turn_id="t-1"))
        decide = await on.start("decide")
        await decided(on, decide, beside)
        assert {beside} == (await actions(on)).keys()
        assert await decide.sample("committed_offset", **FIRST) <= first[1]

        decide.process.kill()
        await decide.process.wait()
        decide = await on.start("decide")

        async def retried() -> bool:
            labels = {"decider": "by_word", "failure": "unavailable"}
            return await decide.sample("decider_retries_total", **labels) >= 1

        await until(retried, decide.text)
        assert 1 == await decide.sample("handlers_resting")
        assert 0 == await decide.sample("handlers_running")
        assert {beside} == (await actions(on)).keys()
        (tmp_path / "back").touch()

        async def second_said() -> bool:
            return bool(await on.events(Outcome))

        await until(second_said, decide.text)
        found = await actions(on)
        (outcome,) = await on.events(Outcome)

        assert {first, beside} == found.keys()
        assert ("answer", 1) == (found[first].decision.action, found[first].input_no)
        assert (second, "buffered", 2) == (
            (outcome.source.partition, outcome.source.offset),
            outcome.outcome,
            outcome.input_no,
        )
        assert 0 == await decide.stopped()


async def test_a_stop_does_not_wait_for_a_turn_that_waits(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Its next owner asks again, and decides it."""
    settings = changes(
        tmp_path,
        decider_backoff_seconds=600,
        decider_backoff_max_seconds=600,
        decider_patience_seconds=3600,
        stream={"grace_seconds": 49},
    )
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, **settings) as on:
        place = await on.send(turn(on.key_on(0), f"Are you {DOWN}?", turn_id="t-1"))
        decide = await on.start("decide")

        async def resting() -> bool:
            return await decide.sample("handlers_resting") == 1

        await until(resting, decide.text)
        # Far below the grace: a handler that is waited for would take all of it.
        assert 0 == await decide.stopped()
        assert {} == await actions(on)
        (tmp_path / "back").touch()
        await decided(on, await on.start("decide"), place)


async def test_a_decider_that_fails_is_left_alone_until_it_is_back(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """All its conversations wait without a handoff, and go on by themselves."""
    settings = changes(
        tmp_path,
        decider_attempts=2,
        decider_backoff_seconds=0.1,
        decider_breaker_failures=1,
        decider_breaker_cool_down_seconds=0.5,
        decider_patience_seconds=600,
    )
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, **settings) as on:
        decide = await on.start("decide")
        failing = turn(on.key_on(0), f"Are you {DOWN}?", turn_id="t-1")
        places = [await on.send(failing)]
        breaker = {"decider": "by_word"}

        async def left_alone() -> bool:
            return await decide.sample("decider_breaker_state", **breaker) > 0

        await until(left_alone, decide.text)
        (tmp_path / "back").touch()
        places += [
            await on.send(turn(on.key_on(partition, "more"), "Hello", turn_id="t-1"))
            for partition in range(4)
        ]
        await decided(on, decide, *places)

        assert 0 == await decide.sample("decider_breaker_state", **breaker)
        assert 0 == await decide.sample("handlers_resting")
        assert ["answer"] * 5 == [one.decision.action for one in (await actions(on)).values()]


async def test_a_partition_at_its_bound_goes_on_when_the_turn_has_come_to_an_end(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """So many are handled beyond an unfinished turn; then it is handed off by its own age."""
    settings = changes(
        tmp_path,
        decider_attempts=10,
        decider_backoff_seconds=2,
        decider_backoff_max_seconds=2,
        decider_breaker_failures=1000,
        decider_patience_seconds=12,
        stream={"max_ahead_per_partition": 5},
    )
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, **settings) as on:
        first = await on.send(turn(on.key_on(0, "first"), f"Are you {DOWN}?", turn_id="t-1"))
        more = [
            await on.send(turn(on.key_on(0, f"more{number}"), "Hello", turn_id="t-1"))
            for number in range(12)
        ]
        elsewhere = await on.send(turn(on.key_on(1), "Hello", turn_id="t-1"))
        decide = await on.start("decide")

        async def paused() -> bool:
            return await decide.sample("partition_paused", **FIRST) == 1

        await until(paused, decide.text)
        await decided(on, decide, elsewhere, *more[:4])
        assert {elsewhere, *more[:4]} == (await actions(on)).keys()

        await decided(on, decide, first, *more)
        handoff = (await actions(on))[first].handoff
        assert handoff is not None
        assert "budget" == handoff.cause

        async def committed() -> bool:
            return await decide.sample("committed_offset", **FIRST) == more[-1][1] + 1

        await until(committed, decide.text)
        assert 0 == await decide.sample("partition_paused", **FIRST)
        assert [] == await on.letters()


async def test_output_too_large_odd_headers_and_clocks_that_go_back(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Each comes to its end at once, said to a person where there is no decision."""
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, **changes(tmp_path)) as on:
        key = on.key_on(0, "odd")
        endless = await on.send(turn(on.key_on(0, "endless"), ENDLESS, turn_id="t-1"))
        nameless = await on.send(turn(on.key_on(0, "nameless"), NAMELESS, turn_id="t-1"))
        headers: list[tuple[str, bytes | None]] = [
            ("trace", None),
            ("", b"no name"),
            ("tenant", b"a"),
            ("tenant", b"b"),
            ("tenant", b""),
            ("event_id", bytes.fromhex("0191f0a37c2b7d3e9a4b5c6d7e8f9012")),
            ("x", b"\xff\x00\xfe"),
            ("traceparent", None),
        ]
        broken = await on.raw(b"not avro", key=key.encode(), partition=0, headers=headers)
        good = await on.send(turn(key, "Hello", turn_id="t-1"), headers=headers)
        backwards = []
        for number in range(3):
            late = turn(on.key_on(1), "human, please", turn_id=f"t-{number}")
            sent = await on.producer.send_and_wait(
                on.topic(TURNS),
                on.codec.encode(late),
                key=late.conversation_id.encode(),
                partition=1,
                timestamp_ms=now_ms() - number * 3_600_000,
            )
            backwards.append((sent.partition, sent.offset))
        decide = await on.start("decide")
        await decided(on, decide, endless, nameless, good, backwards[0])

        found = await actions(on)
        causes = {place: one.handoff.cause for place, one in found.items() if one.handoff}
        assert "schema_fail" == causes[endless]
        assert "dead_letter" == causes[nameless]
        assert "answer" == found[good].decision.action

        async def two_letters() -> bool:
            return len(await on.letters()) == 2

        await until(two_letters, decide.text)
        letters = {(one.partition, one.offset): one for one in await on.letters()}
        assert {broken, nameless} == letters.keys()
        too_large = letters[nameless]
        assert ("output_too_large", 1) == (too_large.reason, too_large.attempts)
        assert b"a publication to" in too_large.headers["turnstream.error.detail"]
        assert 0 == await decide.sample("handler_retries_total")
        records = await on.read(f"{TURNS}.dlq")
        kept = [list(one.headers)[: len(headers)] for one in records if one.value == b"not avro"]
        assert [headers] == kept

        # The same conversation, its records' times going back: handed off once, then a person's.
        async def all_said() -> bool:
            return len(await on.events(Outcome)) == 2

        await until(all_said, decide.text)
        outcomes = await on.events(Outcome)
        assert [("held_by_person", 2), ("held_by_person", 3)] == [
            (one.outcome, one.input_no) for one in outcomes
        ]


async def test_a_candidate_that_is_away_for_a_moment_loses_no_comparison(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Only its own conversation waits for it; then it is compared like the others."""
    unreliable = changes(tmp_path)["deciders"]["by_word"]
    settings: dict[str, Any] = {
        "deciders": {
            "by_word": {"kind": "python", "target": "tests.small_shop:by_word"},
            "candidate": unreliable,
        },
        "shadow": {
            "decider": "candidate",
            "decider_attempts": 10,
            "decider_backoff_seconds": 1,
            "decider_backoff_max_seconds": 1,
            "decider_breaker_failures": 2,
            "decider_breaker_cool_down_seconds": 1,
        },
    }
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path, **settings) as on:
        waiting, other = on.key_on(0, "waiting"), on.key_on(0, "other")
        first = await on.send(turn(waiting, f"Are you {DOWN}?", turn_id="t-1"))
        beside = await on.send(turn(other, "Hello", turn_id="t-1"))
        decide, shadow = await on.start("decide"), await on.start("shadow")
        await decided(on, decide, first, beside)

        async def compared(*places: tuple[int, int]) -> bool:
            found = [(one.source.partition, one.source.offset) for one in await comparisons(on)]
            assert len(set(found)) == len(found)
            return set(found) == set(places)

        async def beside_compared() -> bool:
            return await compared(beside)

        async def left_alone() -> bool:
            return await shadow.sample("decider_breaker_state", decider="candidate") > 0

        await until(beside_compared, shadow.text)
        await until(left_alone, shadow.text)
        assert await shadow.sample("decider_retries_total", decider="candidate") >= 1
        assert await compared(beside)
        (tmp_path / "back").touch()

        async def both_compared() -> bool:
            return await compared(beside, first)

        await until(both_compared, shadow.text)

        assert ["same", "same"] == [one.verdict for one in await comparisons(on)]
        assert 0 == await shadow.sample("decider_breaker_state", decider="candidate")
        assert {"decide": 0, "shadow": 0} == await on.stop_all()


async def comparisons(on: Deployed) -> list[ShadowComparison]:
    """What the shadow has published of how the candidate compares."""
    return await on.events(ShadowComparison)
