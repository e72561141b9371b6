"""The internals this package stands on are those it was written for."""

from turnstream.stream.pins import PINS, source_hash


def test_overridden_internals_have_not_changed() -> None:
    """A new release of Faust, mode or aiokafka is read before it is used."""
    changed = {name for name, pinned in PINS.items() if source_hash(name) != pinned}

    assert set() == changed
