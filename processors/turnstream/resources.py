"""Where the contracts are: `schemas/` and `topics/`, in the wheel or in the checkout."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


class MissingContracts(Exception):
    """The contracts are neither in the package nor beside it: reinstall, or run from a checkout."""


def _folder(name: str) -> Traversable:
    packaged = files("turnstream") / "_data" / name
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parents[2] / name
    if checkout.is_dir():
        return checkout
    raise MissingContracts(f"no {name}/ in {packaged} nor {checkout}: reinstall turnstream")


def schemas() -> Traversable:
    """The folder of Avro schemas: `<subject>/v<N>.avsc`.

    Raises:
        MissingContracts: The installation is incomplete.
    """
    return _folder("schemas")


def topics() -> Traversable:
    """The folder of topic definitions: `<topic>.yaml`.

    Raises:
        MissingContracts: The installation is incomplete.
    """
    return _folder("topics")
