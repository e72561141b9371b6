"""The base of everything that a catalog defines."""

from typing import get_args

from pydantic import BaseModel, ConfigDict, model_validator


class Definition(BaseModel):
    """Base of every catalog model: immutable, unknown keys refused, no boolean for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _no_boolean_is_a_number(cls, given: object) -> object:
        # Pydantic takes true for 1: a limit that somebody switched on would be the least there is.
        values = given if isinstance(given, dict) else {}
        for name, field in cls.model_fields.items():
            for key in {name, field.alias} & values.keys():
                kinds = {field.annotation, *get_args(field.annotation)}
                if isinstance(values[key], bool) and kinds & {int, float} and bool not in kinds:
                    raise ValueError(f"{key}: expected a number, got a boolean")
        return given
