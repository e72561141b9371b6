"""What all sections of the configuration have in common."""

from typing import get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """Base of every section: immutable, unknown keys and numbers that are not finite refused.

    A number may be in quotes, as it is in the environment. A boolean is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_boolean_is_a_number(cls, given: object) -> object:
        # Pydantic takes true for 1: a time-out that somebody switched on would be one of a second.
        for key, value in given.items() if isinstance(given, dict) else ():
            held = value.values() if isinstance(value, dict) else (value,)
            if key in cls.model_fields and any(isinstance(one, bool) for one in held):
                kinds = _kinds(cls.model_fields[key].annotation)
                if kinds & {int, float} and bool not in kinds:
                    raise ValueError(f"{key}: expected a number, got a boolean")
        return given


def _kinds(annotation: object) -> set[object]:
    """All types that an annotation is made of."""
    return {annotation}.union(*(_kinds(one) for one in get_args(annotation)))
