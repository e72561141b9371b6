"""Topic definitions: the YAML files under `topics/`, whose README explains their keys."""

from datetime import timedelta
from functools import cache
from importlib.resources.abc import Traversable
from typing import Final, Literal, Self, TypeAlias, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from turnstream import resources
from turnstream.core.errors import TurnstreamError

RoleName: TypeAlias = Literal["decide", "execute", "answer", "classify", "shadow"]
ROLES: Final[tuple[RoleName, ...]] = get_args(RoleName)


class TopicsRefused(TurnstreamError):
    """Definitions are faulty, or the cluster refused; the message names topic and cause."""


class _Definition(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DeadLetterDefinition(_Definition):
    """The topic of a topic's dead letters."""

    partitions: int = Field(ge=1)
    retention: timedelta
    """Bound of erasure, and the time in which a dead letter can be replayed."""


class TopicDefinition(_Definition):
    """One topic."""

    name: str
    """Logical name; a deployment's prefix or override gives the physical one."""
    description: str
    key: str
    """What the record key holds, as UTF-8 text."""
    subject: str | None
    """Folder of the value's Avro schema; null when the value is not one of the events."""
    partitions: int | Literal["shared"]
    """`shared`: the one count of all topics on a conversation's path."""
    replication_factor: int | Literal["shared"]
    """`shared`: the deployment's."""
    retention: timedelta | None
    """How long records are kept: the bound of erasure. Null for compacted topics only."""
    cleanup_policy: Literal["delete", "compact"] = Field(alias="cleanup.policy")
    max_message_bytes: int = Field(alias="max.message.bytes", ge=1)
    config: dict[str, int | float | str] = {}
    """Further settings of the topic, by Kafka's names."""
    changelog_of: RoleName | None = None
    """The role whose state this topic holds."""
    written_by: tuple[str, ...]
    read_by: tuple[str, ...]
    dlq: DeadLetterDefinition | None = None
    """The topic of dead letters; null when no role of ours reads this topic."""

    @model_validator(mode="after")
    def _keeps_records_for_a_stated_time(self) -> Self:
        if (self.retention is None) != (self.cleanup_policy == "compact"):
            raise ValueError("retention is given exactly when cleanup.policy is delete")
        return self

    def settings(self) -> dict[str, str]:
        """The topic's settings by Kafka's names; others are left to the cluster's operator."""
        settings = {
            "cleanup.policy": self.cleanup_policy,
            "max.message.bytes": str(self.max_message_bytes),
        }
        if self.retention is not None:
            settings["retention.ms"] = milliseconds(self.retention)
        return settings | {key: str(value) for key, value in self.config.items()}


def milliseconds(duration: timedelta) -> str:
    """A duration as Kafka's settings give it."""
    return str(duration // timedelta(milliseconds=1))


def load_topics(folder: Traversable | None = None) -> tuple[TopicDefinition, ...]:
    """Read all definitions, the packaged ones unless a folder is given, sorted by name.

    Raises:
        TopicsRefused: A file is no definition; the message names file and key.
    """
    folder = folder or resources.topics()
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".yaml")), key=lambda f: f.name
    )
    return tuple(_load(file) for file in files)


@cache
def readers_of(topic: str) -> frozenset[RoleName]:
    """The roles that read a topic, by its logical name."""
    (read_by,) = (one.read_by for one in load_topics() if one.name == topic)
    return frozenset(role for role in ROLES if role in read_by)


def _load(file: Traversable) -> TopicDefinition:
    try:
        definition = TopicDefinition.model_validate(yaml.safe_load(file.read_text("utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TopicsRefused(f"{file.name}: not YAML: {error}") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
            for fault in error.errors(include_url=False)
        )
        raise TopicsRefused(f"{file.name}: {faults}") from error
    if file.name != f"{definition.name}.yaml":
        raise TopicsRefused(
            f"{file.name}: name is {definition.name!r}, the file's must be the same"
        )
    return definition
