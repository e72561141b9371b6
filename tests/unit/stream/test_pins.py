"""The internals this package stands on are those it was written for."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from aiokafka.consumer import fetcher
from mode.services import ServiceTask

import turnstream.stream
from turnstream.stream.fetched import MendingRecords
from turnstream.stream.pins import PINS, source_hash

LIBRARIES = {"aiokafka", "faust", "mode"}

CODE = (type(lambda: None), classmethod, property, staticmethod, ServiceTask)


def _classes() -> Iterator[type]:
    """Every class that the package's modules define."""
    for module in pkgutil.iter_modules(turnstream.stream.__path__):
        found = importlib.import_module(f"turnstream.stream.{module.name}")
        for one in vars(found).values():
            if inspect.isclass(one) and one.__module__ == found.__name__:
                yield one


def _overridden() -> Iterator[str]:
    """Every method of theirs that a class of ours replaces, as the table names it."""
    for ours in _classes():
        for name, value in vars(ours).items():
            if not isinstance(value, CODE):
                continue
            for base in ours.__mro__[1:]:
                library = base.__module__.partition(".")[0] in LIBRARIES
                if library and isinstance(vars(base).get(name), CODE):
                    yield f"{base.__module__}:{base.__qualname__}.{name}"
                    break


def test_overridden_internals_have_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new release of Faust, mode or aiokafka is read before it is used."""
    # Ours takes the name of theirs in a process that has read anything.
    monkeypatch.setattr(fetcher, "PartitionRecords", MendingRecords.__base__)
    changed = {name for name, pinned in PINS.items() if source_hash(name) != pinned}

    assert set() == changed


def test_every_overridden_method_is_pinned() -> None:
    """By itself or with its class; what is compiled has no source, its twin in Python is pinned."""
    overridden = set(_overridden())
    unpinned = {
        name for name in overridden if name not in PINS and name.rpartition(".")[0] not in PINS
    }

    assert "faust.app.base:App.on_start" in overridden
    assert set() == unpinned


def test_the_replaced_names_are_those_that_the_fetcher_looks_up() -> None:
    """Where it reads a batch: another name would silently leave ours unused."""
    replaced = {"MemoryRecords", "PartitionRecords"}

    assert replaced <= set(vars(fetcher))
    assert replaced <= set(fetcher.Fetcher._proc_fetch_request.__code__.co_names)
