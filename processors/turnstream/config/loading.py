"""The configuration as a whole, and reading it from a file and the environment."""

import difflib
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, Self, get_args

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from turnstream.config.decisions import DecisionsSettings
from turnstream.config.kafka import KafkaSettings
from turnstream.config.sections import (
    CatalogRulesSettings,
    ClassifierSettings,
    ClassifySettings,
    DeciderSettings,
    DecideSettings,
    EmbeddedClassifierSettings,
    ExecuteSettings,
    MetricsSettings,
    RawSinkSettings,
    RegistrySettings,
    SchemaReference,
    ShadowSettings,
    StreamOptions,
    TopicSettings,
    TurnsSettings,
)
from turnstream.config.yaml_lines import Document, Fault, YamlUnreadable, expectations, read_yaml

ENVIRONMENT_PREFIX: Final = "TURNSTREAM_"
_NESTED: Final = "__"

_NEAR: Final = 0.85
"""One or two letters of a name differ. Less alike are variables of platforms and of other programs,
and a warning about them would teach everybody to overlook warnings."""


class ConfigurationError(Exception):
    """The configuration is wrong; whoever edits the file or the environment must act."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


class Settings(BaseSettings):
    """Everything that a process needs to know about its deployment."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter=_NESTED,
        validate_default=True,
    )

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    partitions: int = Field(default=4, ge=1, le=10_000)
    """Partitions of every topic on a conversation's path."""
    replication_factor: int = Field(default=1, ge=1, le=32_767)
    """Replicas of every topic that `turnstream topics apply` creates."""
    registry: RegistrySettings | None = None
    refused_schemas: tuple[SchemaReference, ...] = ()
    """Schemas that will never be published: fingerprints, or ``id:NUMBER`` of a registry.

    A value that names one is a dead letter, where its partition would else wait for the schema.
    """
    turns: TurnsSettings = TurnsSettings()
    start_from: str | None = None
    """Where a group without committed offsets begins: latest, earliest, or an ISO timestamp
    with its UTC offset."""
    stream: StreamOptions = StreamOptions()
    catalog: Path = Path("catalog.yaml")
    deciders: dict[str, DeciderSettings] = {}
    """Name to decider; `catalog_rules` is always there."""
    classifiers: dict[str, ClassifierSettings] = {}
    """Name to classifier; `embedded` is always there."""
    decide: DecideSettings = DecideSettings()
    execute: ExecuteSettings = ExecuteSettings()
    classify: ClassifySettings = ClassifySettings()
    shadow: ShadowSettings = ShadowSettings()
    metrics: MetricsSettings = MetricsSettings()
    raw_sink: RawSinkSettings = RawSinkSettings()

    @field_validator("start_from")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is None or value in ("latest", "earliest"):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ValueError(
                "expected latest, earliest or an ISO timestamp with its UTC offset, "
                f"as 2026-01-31T08:00:00+00:00, got {value!r}"
            )
        return value

    @field_validator("deciders")
    @classmethod
    def _with_the_embedded_decider(
        cls, value: dict[str, DeciderSettings]
    ) -> dict[str, DeciderSettings]:
        return {"catalog_rules": CatalogRulesSettings(kind="catalog_rules"), **value}

    @field_validator("classifiers")
    @classmethod
    def _with_the_embedded_classifier(
        cls, value: dict[str, ClassifierSettings]
    ) -> dict[str, ClassifierSettings]:
        return {"embedded": EmbeddedClassifierSettings(kind="embedded"), **value}

    @model_validator(mode="after")
    def _references_resolve(self) -> Self:
        if self.shadow.decider not in self.deciders:
            known = ", ".join(sorted(self.deciders))
            raise ValueError(
                f"shadow.decider: expected one of deciders ({known}), got {self.shadow.decider!r}"
            )
        for name in self.decide.calibrations:
            if name not in self.deciders:
                known = ", ".join(sorted(self.deciders))
                raise ValueError(
                    f"decide.calibrations: expected one of deciders ({known}), got {name!r}"
                )
        if self.classify.classifier not in self.classifiers:
            known = ", ".join(sorted(self.classifiers))
            raise ValueError(
                f"classify.classifier: expected one of classifiers ({known}), "
                f"got {self.classify.classifier!r}"
            )
        return self

    @model_validator(mode="after")
    def _arguments_have_a_writer(self) -> Self:
        for name, one in self.deciders.items():
            if not isinstance(one, DecisionsSettings) or one.arguments_by is None:
                continue
            writer = self.deciders.get(one.arguments_by)
            if writer is None or writer.kind in ("catalog_rules", "decisions"):
                raise ValueError(
                    f"deciders.{name}.arguments_by: expected one of deciders that writes "
                    f"arguments, an agent model, got {one.arguments_by!r}"
                )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - signature of pydantic-settings
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file; nothing else is read."""
        return env_settings, init_settings

    def group(self, role: str) -> str:
        """The consumer group of a role."""
        return f"{self.topics.prefix}turnstream-{role}"

    def changelog(self, role: str) -> str:
        """The changelog topic of a role's state."""
        return f"{self.group(role)}-state-changelog"


_PATHS: Final = (
    ("catalog",),
    ("shadow", "catalog"),
    ("shadow", "calibration"),
    ("kafka", "ssl_cafile"),
    ("kafka", "ssl_certfile"),
    ("kafka", "ssl_keyfile"),
    ("stream", "data_dir"),
    ("raw_sink", "directory"),
)
"""The keys whose relative paths are relative to the configuration file."""


def load_settings(path: Path | None) -> Settings:
    """Read the configuration.

    Args:
        path: the YAML file; None to take defaults and the environment alone, relative paths then
            being relative to the working directory.

    Raises:
        ConfigurationError: every fault found, with file, line, path and what was expected.
    """
    try:
        document = Document(Path("turnstream.yaml"), {}) if path is None else read_yaml(path)
    except YamlUnreadable as error:
        raise ConfigurationError(error.faults) from error
    if not isinstance(document.value, dict):
        fault = document.fault((), "expected a mapping of sections")
        raise ConfigurationError((fault,))
    faults = list(_unknown_variables())
    # A section whose lines are all commented out reads as null and means its defaults.
    given = {key: value for key, value in document.value.items() if value is not None}
    try:
        settings = Settings(**given)  # type: ignore[arg-type]
    except ValidationError as error:
        faults.extend(_faults(error, document))
    except SettingsError as error:
        faults.append(_not_json(error))
    if faults:
        raise ConfigurationError(tuple(faults))
    return settings if path is None else _anchored(settings, path.parent)


def _anchored(settings: Settings, folder: Path) -> Settings:
    """Make relative paths relative to the folder of the configuration file."""
    changes: dict[str, object] = {}
    for section, *rest in _PATHS:
        owner: BaseModel = getattr(settings, section) if rest else settings
        key = rest[0] if rest else section
        value: Path | None = getattr(owner, key)
        if value is None or value.is_absolute():
            continue
        if not rest:
            changes[key] = folder / value
        else:
            current = changes.get(section, owner)
            assert isinstance(current, BaseModel)  # noqa: S101 - narrows the type
            changes[section] = current.model_copy(update={key: folder / value})
    calibrations = {name: folder / path for name, path in settings.decide.calibrations.items()}
    changes["decide"] = settings.decide.model_copy(update={"calibrations": calibrations})
    return settings.model_copy(update=changes)


def _faults(error: ValidationError, document: Document) -> list[Fault]:
    """Faults of the file at their lines, those of the environment under their variable."""
    found: list[Fault] = []
    for location, message in expectations(error, model=Settings, value=document.value):
        variable = _variable_of(location)
        if variable is None:
            found.append(document.fault(location, message))
        else:
            path = ".".join(str(part) for part in location)
            found.append(Fault(f"environment variable {variable}", None, path, message))
    return sorted(found, key=lambda fault: (fault.line or 0, fault.path))


def _variable_of(location: tuple[str | int, ...]) -> str | None:
    """The environment variable that sets a key or something around it."""
    names = {name.upper(): name for name in os.environ}
    for length in range(len(location), 0, -1):
        parts = [str(part).upper() for part in location[:length]]
        name = names.get(ENVIRONMENT_PREFIX + _NESTED.join(parts))
        if name is not None:
            return name
    return None


def _unknown_variables() -> list[Fault]:
    """Variables that look like overrides but name no section.

    Only names with two underscores are ours to refuse: platforms set variables such as
    ``TURNSTREAM_METRICS_PORT`` for services of that name.
    """
    found: list[Fault] = []
    for name in sorted(os.environ):
        upper = name.upper()
        if not upper.startswith(ENVIRONMENT_PREFIX) or _NESTED not in upper:
            continue
        section = upper.removeprefix(ENVIRONMENT_PREFIX).split(_NESTED, 1)[0].lower()
        if section not in Settings.model_fields:
            known = ", ".join(sorted(Settings.model_fields))
            message = f"unknown section {section!r}; expected one of {known}"
            found.append(Fault(f"environment variable {name}", None, "", message))
    return found


def near_variables() -> list[tuple[str, str]]:
    """Variables that nothing reads and that look misspelt, each with what was probably meant.

    They cannot be refused: any program may have variables with our prefix.
    """
    known = [ENVIRONMENT_PREFIX + _NESTED.join(path).upper() for path in _paths()]
    found: list[tuple[str, str]] = []
    for name, value in sorted(os.environ.items()):
        upper = name.upper()
        ours = upper.startswith(ENVIRONMENT_PREFIX) and _NESTED not in upper and upper not in known
        # A platform's notice of a service of that name.
        if not ours or value.startswith("tcp://"):
            continue
        names = [one.removeprefix(ENVIRONMENT_PREFIX) for one in known]
        rest = upper.removeprefix(ENVIRONMENT_PREFIX)
        near = difflib.get_close_matches(rest, names, n=1, cutoff=_NEAR)
        found.extend((name, ENVIRONMENT_PREFIX + one) for one in near)
    return found


def _paths() -> Iterator[tuple[str, ...]]:
    """Every key, and every key of a section."""
    for section, field in Settings.model_fields.items():
        yield (section,)
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                for key in kind.model_fields:
                    yield section, key


def _not_json(error: SettingsError) -> Fault:
    quoted = re.search(r'field "(\w+)"', str(error))
    section = quoted.group(1) if quoted else ""
    variable = f"{ENVIRONMENT_PREFIX}{section.upper()}"
    message = "expected JSON, as for every list, mapping and whole section in the environment"
    return Fault(f"environment variable {variable}", None, section, message)
