"""The two layers of a lane's state."""

from turnstream.stream.store import MemoryStore


def store(*, hot: int = 10) -> tuple[MemoryStore[str], list[bytes]]:
    """Return a store with one committed record, and the list of values it decodes."""
    decoded: list[bytes] = []

    def load(value: bytes) -> str:
        decoded.append(value)
        return value.decode()

    return MemoryStore([(b"k", b"old")], load=load, hot=hot), decoded


def test_reads_the_uncommitted_state_first() -> None:
    """A later input of a key sees the state its predecessor left, committed or not."""
    states, _ = store()
    states.put(b"k", "new")

    assert "new" == states.get(b"k")
    assert states.is_pending(b"k")


def test_removed_state_reads_as_none_before_and_after_the_commit() -> None:
    """Removing a state hides the committed record at once."""
    states, _ = store()
    states.put(b"k", None)

    assert states.get(b"k") is None
    assert states.has_record(b"k")

    states.commit(b"k", state=None, value=None)

    assert states.get(b"k") is None
    assert not states.has_record(b"k")
    assert not states.is_pending(b"k")


def test_commit_of_an_older_state_keeps_the_newer_one() -> None:
    """A transaction commits what it took; the next state of the key stays uncommitted."""
    states, _ = store()
    states.put(b"k", "one")
    states.put(b"k", "two")
    states.commit(b"k", state="one", value=b"one")

    assert "two" == states.get(b"k")
    assert states.is_pending(b"k")


def test_decoded_states_are_bounded() -> None:
    """Only the keys used last stay decoded."""
    states, decoded = store(hot=1)
    states.get(b"k")
    states.get(b"k")
    states.put(b"other", "x")
    states.commit(b"other", state="x", value=b"x")
    states.get(b"k")

    assert [b"old", b"old"] == decoded
    assert 2 == len(states)
