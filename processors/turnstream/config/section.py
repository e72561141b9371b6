"""What all sections of the configuration have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of every section: immutable, unknown keys and numbers that are not finite refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
