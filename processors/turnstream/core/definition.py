"""The base of everything that a catalog defines."""

from pydantic import BaseModel, ConfigDict


class Definition(BaseModel):
    """Base of every catalog model: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
