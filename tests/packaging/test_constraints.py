"""constraints.txt pins everything that an install brings, to names and versions alone."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.conftest import ROOT

PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+")


def pins() -> dict[str, str]:
    """Reads constraints.txt as canonical name -> version."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(name): version for name, version in (x.split("==") for x in lines)}


def declared() -> list[Requirement]:
    """Reads every requirement of pyproject.toml, extras included."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for group in groups for line in group]


def brought() -> set[str]:
    """Names all packages that the declared ones bring into this environment, themselves included.

    A package that is not installed here (the benchmarks' extra may not be) is named, not entered.
    """
    seen: set[tuple[str, str]] = set()
    names: set[str] = set()
    todo = [requirement for requirement in declared() if requirement.name != "turnstream"]
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        names.add(name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                lines = requires(name) or []
            except PackageNotFoundError:
                continue
            todo += [
                needed
                for needed in map(Requirement, lines)
                if needed.marker is None or needed.marker.evaluate({"extra": extra})
            ]
    return names


def test_constraints_are_names_and_versions_alone() -> None:
    """Every line is NAME==VERSION, sorted, without URLs, hashes or options."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()

    assert [] == [line for line in lines if not PIN.fullmatch(line)]
    names = [canonicalize_name(line.split("==")[0]) for line in lines]
    assert sorted(set(names)) == names


def test_constraints_pin_all_that_an_install_brings() -> None:
    """No dependency, direct or not, of any extra is left to float."""
    assert set() == brought() - pins().keys()


def test_pinned_versions_meet_the_declared_ranges() -> None:
    """What pyproject.toml asks for allows what constraints.txt pins."""
    pinned = pins()
    broken = [
        str(requirement)
        for requirement in declared()
        if requirement.name != "turnstream"
        and not requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])
    ]

    assert [] == broken
