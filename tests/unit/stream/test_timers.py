"""The index over the timers of a lane's states."""

from hypothesis import given
from hypothesis import strategies as st

from turnstream.stream.handler import TimerDue
from turnstream.stream.timers import TimerIndex

Timers = dict[bytes, tuple[TimerDue, ...]]


def timer(name: str, at: int) -> TimerDue:
    """Return a timer."""
    return TimerDue(name, "reminder", at)


def test_fires_each_timer_once_at_its_time() -> None:
    """A timer fires when its time is reached, not before, and not again."""
    index = TimerIndex()
    timers = (timer("a", 10), timer("b", 20))
    index.update(b"k", timers)
    fired = [index.fire(at, timers_of=lambda _: timers, keys=9) for at in (9, 10, 15, 20, 99)]

    assert [[], [(b"k", timers[0])], [], [(b"k", timers[1])], []] == fired


def test_cancelled_timer_does_not_fire() -> None:
    """A timer that is no longer in the state is forgotten."""
    index = TimerIndex()
    index.update(b"k", (timer("a", 10),))
    index.update(b"k", ())

    assert [] == index.fire(99, timers_of=lambda _: (), keys=9)
    assert 0 == len(index)


def test_timer_set_again_fires_again() -> None:
    """The same timer with another time is another timer."""
    index = TimerIndex()
    index.update(b"k", (timer("a", 10),))
    index.fire(10, timers_of=lambda _: (timer("a", 10),), keys=9)
    later = (timer("a", 30),)
    index.update(b"k", later)

    assert 30 == index.earliest()
    assert [(b"k", later[0])] == index.fire(30, timers_of=lambda _: later, keys=9)


def test_what_is_due_beyond_the_bound_fires_in_the_next_calls_in_its_order() -> None:
    """The earliest first; a cancelled one counts, too, for it has been looked at."""
    index = TimerIndex()
    states: Timers = {b"%d" % n: (timer("a", n),) for n in range(5)}
    for key, timers in reversed(states.items()):
        index.update(key, timers)
    states[b"1"] = ()
    fired = [index.fire(9, timers_of=states.__getitem__, keys=2) for _ in range(4)]

    assert [[b"0"], [b"2", b"3"], [b"4"], []] == [[key for key, _ in each] for each in fired]


def test_size_follows_keys_not_updates() -> None:
    """A key that keeps setting a near timer beside a far one leaves no trail."""
    index = TimerIndex()
    for turn in range(20_000):
        near, far = timer("near", turn + 1), timer("far", 10_000_000 + turn)
        index.update(b"k", (near, far))
        index.fire(turn + 1, timers_of={b"k": (far,)}.__getitem__, keys=9)
        index.update(b"k", (far,))

    assert 1 == len(index)
    assert len(index._heap) < 2_000


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"k1", b"k2", b"k3"]),
            st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=3),
            st.integers(0, 3),
        ),
        max_size=30,
    )
)
def test_fires_exactly_what_a_plain_search_finds(
    steps: list[tuple[bytes, list[tuple[str, int]], int]],
) -> None:
    """Whatever is set, moved and cancelled, due timers fire once and at once."""
    index = TimerIndex()
    states: Timers = {}
    fired: set[tuple[bytes, str, int]] = set()
    now = 0
    for key, wanted, passed in steps:
        states[key] = tuple(timer(name, at) for name, at in dict(wanted).items())
        fired = {mark for mark in fired if mark[0] != key} | {
            mark for mark in fired if mark[0] == key and timer(mark[1], mark[2]) in states[key]
        }
        index.update(key, states[key])
        now += passed
        expected = {
            (each, one.timer_id, one.due_at)
            for each, timers in states.items()
            for one in timers
            if one.due_at <= now
        } - fired
        found = index.fire(now, timers_of=lambda each: states.get(each, ()), keys=9)

        assert expected == {(each, one.timer_id, one.due_at) for each, one in found}
        assert len(expected) == len(found)
        fired |= expected
