"""Immutable values and copies of them with changes, fast enough for many per turn."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
    from dataclasses import replace as evolved
else:

    def dataclass(*, frozen: bool, slots: bool = False) -> Callable[[type], type]:
        """Like :func:`dataclasses.dataclass`, without the cost of enforcing `frozen` at run time.

        A frozen class sets each field through `object.__setattr__`, five times as slow, and dozens
        of these values are made per turn. The type checker sees :func:`dataclasses.dataclass`
        itself and refuses every assignment.
        """
        return dataclasses.dataclass(slots=slots, unsafe_hash=frozen)

    def evolved(state, /, **changes):  # noqa: ANN001, ANN003, ANN201 - typed as replace, above
        """Like :func:`dataclasses.replace`, for dataclasses without slots, at a tenth of its cost.

        The type checker sees :func:`dataclasses.replace` itself, which checks names and types.
        """
        copy = object.__new__(type(state))
        object.__setattr__(copy, "__dict__", {**state.__dict__, **changes})
        return copy


__all__ = ["dataclass", "evolved"]
