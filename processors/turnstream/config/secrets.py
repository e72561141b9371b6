"""Secrets by reference: a configuration names where a secret is, never the secret itself."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from pydantic import GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema

_REFERENCE: Final = re.compile(r"(env:[A-Za-z_][A-Za-z0-9_]*|file:[^\x00-\x1f]+)", re.ASCII)


class SecretUnavailable(Exception):
    """A secret or certificate cannot be read; who runs the process must set what the text names."""


class SecretRef:
    """Where a secret is: ``env:NAME`` or ``file:PATH``.

    It is read at each use and never kept, so a rotated secret is picked up without a restart. A
    relative path is relative to the working directory of the process.
    """

    __slots__ = ("_reference",)

    def __init__(self, reference: str) -> None:
        """Take a reference.

        Raises:
            ValueError: `reference` is something else; the error does not repeat it.
        """
        if not is_reference(reference):
            raise ValueError(
                "expected a reference to a secret, not the secret itself: "
                "write env:NAME or file:PATH"
            )
        self._reference = reference

    def resolve(self) -> str:
        """Read the secret. A file's last line break is not part of it.

        Raises:
            SecretUnavailable: the variable is not set, or the file cannot be read or is empty.
        """
        kind, _, name = self._reference.partition(":")
        if kind == "env":
            value = os.environ.get(name)
            if not value:
                raise SecretUnavailable(f"{self}: set the environment variable {name}")
            return value
        try:
            value = Path(name).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise SecretUnavailable(f"{self}: the file cannot be read as UTF-8 text") from error
        if not value:
            raise SecretUnavailable(f"{self}: the file is empty")
        return value

    def __str__(self) -> str:
        return self._reference

    def __repr__(self) -> str:
        return f"SecretRef({self._reference!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretRef) and other._reference == self._reference

    def __hash__(self) -> int:
        return hash(self._reference)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validated, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def _validated(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        return cls(value if isinstance(value, str) else "")


def is_reference(text: str) -> bool:
    """Whether a text has the form of a reference: ``env:NAME`` or ``file:PATH``."""
    return _REFERENCE.fullmatch(text) is not None


def references_in(value: JsonValue, path: str) -> Iterator[tuple[str, SecretRef]]:
    """Every text inside a JSON value that has the form of a reference, with its path.

    Args:
        value: the value.
        path: its own, which the others begin with.
    """
    match value:
        case str():
            if is_reference(value):
                yield path, SecretRef(value)
        case dict():
            for name, inner in value.items():
                yield from references_in(inner, f"{path}.{name}" if path else name)
        case list():
            for index, inner in enumerate(value):
                yield from references_in(inner, f"{path}.{index}")


def check_no_references(given: dict[str, JsonValue], path: str = "") -> dict[str, JsonValue]:
    """Refuse references where values are sent as they are: the text would go out, not the secret.

    Raises:
        ValueError: there are some.
    """
    found = [where for where, _ in references_in(given, path)]
    if found:
        raise ValueError(
            f"{', '.join(found)}: a reference is sent as it is from here; secrets have keys of "
            "their own"
        )
    return given
