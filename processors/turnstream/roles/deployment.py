"""A deployment put together: configuration, catalog, codec, metrics; every role starts here."""

import importlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from prometheus_client import CollectorRegistry

from turnstream.catalog import (
    LoadedCatalog,
    answer_checks,
    argument_checks,
    check_deciders,
    load_catalog,
)
from turnstream.config import (
    CatalogRulesSettings,
    ConnectorSettings,
    DecisionsSettings,
    PythonSettings,
    Settings,
)
from turnstream.config.connectors import Price
from turnstream.core.definitions import Catalog
from turnstream.core.errors import DefinitionError
from turnstream.core.ports import Decider
from turnstream.core.ruleset import Limits, Ruleset
from turnstream.metrics import Metrics
from turnstream.models.catalog_rules import CatalogRules
from turnstream.roles.calibrations import with_calibration
from turnstream.roles.intake import Intake
from turnstream.roles.publishing import Publisher
from turnstream.roles.raw_sink import RawSink, RawSinkError
from turnstream.stream import Handler, StateFormat
from turnstream.stream.codec import Codec
from turnstream.stream.partitioner import partitioner
from turnstream.stream.registry import codec_for, publish_schemas
from turnstream.stream.role import Owned
from turnstream.stream.topic_definitions import RoleName

S = TypeVar("S")
E = TypeVar("E")

PRIORITY = frozenset(
    {
        "conversation.control",
        "tool.results",
        "conversation.answers",
        "conversation.labels",
        "conversation.timers",
    }
)
"""Results and control go before turns: they end what turns wait for."""

EMBEDDED_DECIDER = "catalog_rules"


class DeploymentError(Exception):
    """The deployment cannot be put together; the message says what to change."""


@dataclass(frozen=True, slots=True)
class StreamRole(Generic[S, E]):
    """What a role gives to the stream."""

    name: str
    handler: Handler[S, E]
    state_format: StateFormat[S]
    sources: tuple[str, ...]
    """Logical source topics; the first is where customers write, for the roles that read it."""
    writes: tuple[str, ...]
    """Logical topics that the role may write to; the stream refuses any other."""
    rejects: frozenset[str] = frozenset()
    """Logical sources whose malformed records this role dead-letters; other roles read them too."""
    dead_letter_topic: str | None = None
    """Logical topic of all its dead letters, where they must not go to the sources' own."""
    owned: Owned[S] | None = None
    """Follows the partitions owned, where the role keeps count of something in them."""
    max_keys_per_partition: int | None = None
    """Keys with a record in one partition at which it takes nothing more; no bound when None."""
    close: Callable[[], Any] | None = None
    """Releases what the role holds, after the last commit."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A catalog that may differ from the main one, with its deciders."""

    settings: Settings
    loaded: LoadedCatalog
    limits: Limits

    @property
    def ruleset(self) -> Ruleset:
        """The compiled catalog."""
        return Ruleset(
            catalog=self.loaded.catalog,
            decision_version=self.loaded.decision_version,
            presentation_version=self.loaded.presentation_version,
            limits=self.limits,
            checks=argument_checks(self.loaded.catalog),
            answer_checks=answer_checks(self.loaded.catalog),
        )

    def calibrated(
        self, name: str, path: Path | None, *, agents: Collection[str] | None = None
    ) -> Decider:
        """Make a configured decider that follows a calibration file, where one is given.

        Args:
            name: of its section.
            path: the file.
            agents: that it decides for; every agent of the catalog by default.

        Raises:
            CalibrationRefused: the file cannot be read, or was made for other versions.
            DeploymentError: no such decider is configured, or its factory cannot be used.
        """
        decider = self.decider(name, agents=agents)
        if path is None:
            return decider
        return with_calibration(decider, path, decision_version=self.loaded.decision_version)

    def decider(self, name: str, *, agents: Collection[str] | None = None) -> Decider:
        """Make a configured decider.

        Args:
            name: of its section.
            agents: that it decides for; every agent of the catalog by default.

        Raises:
            CatalogError: its provider cannot be told of a tool without loss.
            DeploymentError: no such decider is configured, or its factory cannot be used.
        """
        catalog, version = self.loaded.catalog, self.loaded.decision_version
        options = self.settings.deciders.get(name)
        if options is None and name == EMBEDDED_DECIDER:
            return CatalogRules(catalog, version)
        match options:
            case None:
                known = ", ".join(sorted({EMBEDDED_DECIDER, *self.settings.deciders}))
                raise DeploymentError(f"deciders: no decider {name!r}; configured are {known}")
            case CatalogRulesSettings():
                return CatalogRules(catalog, version)
            case PythonSettings():
                made = made_by(options, catalog, where=f"deciders.{name}", method="propose")
                return cast("Decider", made)
            case DecisionsSettings():
                return self._decision_model(options, name, agents)
            case _:
                return self._agent_model(options, name, agents)

    def _agent_model(
        self, options: ConnectorSettings, name: str, agents: Collection[str] | None
    ) -> Decider:
        # Imported here: whoever has no such decider needs none of its libraries.
        from turnstream.models.connectors import agent_model  # noqa: PLC0415
        from turnstream.roles.surfaces import check_surfaces  # noqa: PLC0415

        catalog = self.loaded.catalog
        if agents is not None:
            served = {one: catalog.agents[one] for one in agents}
            catalog = catalog.model_copy(update={"agents": served})
        check_surfaces(self.loaded, options, decider=name, agents=catalog.agents.values())
        try:
            return agent_model(
                options,
                catalog=catalog,
                decision_version=self.loaded.decision_version,
                name=name,
            )
        except DefinitionError as error:
            raise DeploymentError(f"deciders.{name}: {error}") from error

    def _decision_model(
        self, options: DecisionsSettings, name: str, agents: Collection[str] | None
    ) -> Decider:
        # Imported here: whoever has no such decider needs no HTTP client.
        from turnstream.models.decisions_api import DecisionModel  # noqa: PLC0415

        writer = options.arguments_by
        try:
            return DecisionModel(
                options,
                catalog=self.loaded.catalog,
                decision_version=self.loaded.decision_version,
                arguments=None if writer is None else self.decider(writer, agents=agents),
            )
        except DefinitionError as error:
            raise DeploymentError(f"deciders.{name}: {error}") from error


@dataclass(frozen=True)
class Deployment:
    """One process's view of its deployment."""

    settings: Settings
    catalog_path: Path
    now_ms: Callable[[], int] = field(default=lambda: time.time_ns() // 1_000_000)

    @cached_property
    def loaded(self) -> LoadedCatalog:
        """The main catalog."""
        return load_catalog(self.catalog_path)

    @cached_property
    def limits(self) -> Limits:
        """The bounds of a conversation, from the configuration."""
        decide = self.settings.decide
        return Limits(
            max_turn_age_ms=int(decide.max_turn_age_seconds * 1000),
            conversation_ttl_ms=int(decide.conversation_ttl_seconds * 1000),
            answer_deadline_ms=int(decide.answer_deadline_seconds * 1000),
            history_messages=decide.history_messages,
            bot_actors=frozenset(decide.bot_actors),
        )

    @cached_property
    def main(self) -> Candidate:
        """The main catalog with its deciders."""
        return Candidate(self.settings, self.loaded, self.limits)

    @cached_property
    def ruleset(self) -> Ruleset:
        """The main catalog, compiled."""
        return self.main.ruleset

    @property
    def catalog(self) -> Catalog:
        """The main catalog's definitions."""
        return self.loaded.catalog

    def candidate(self) -> Candidate:
        """The shadow's catalog, the main one when none is configured."""
        path = self.settings.shadow.catalog
        if path is None:
            return self.main
        return Candidate(self.settings, load_catalog(path), self.limits)

    def deciders(self) -> Mapping[str, Decider]:
        """Agent name to the decider that proposes for it.

        Raises:
            CatalogError: an agent's decider is not configured.
            CalibrationRefused: a calibration is not for its decider and this catalog.
            DeploymentError: a decider cannot be made.
        """
        check_deciders(self.loaded, {EMBEDDED_DECIDER, *self.settings.deciders})
        served: dict[str, list[str]] = {}
        for name, agent in self.catalog.agents.items():
            served.setdefault(agent.decider, []).append(name)
        made = {
            decider: self.main.calibrated(
                decider, self.settings.decide.calibrations.get(decider), agents=agents
            )
            for decider, agents in served.items()
        }
        return {name: made[agent.decider] for name, agent in self.catalog.agents.items()}

    @cached_property
    def registry(self) -> CollectorRegistry:
        """Where this process's metrics are registered."""
        return CollectorRegistry()

    @cached_property
    def metrics(self) -> Metrics:
        """This process's metrics."""
        names = self.settings.topics
        return Metrics(
            self.registry,
            tools=self.catalog.tools,
            deciders={
                self.settings.shadow.decider,
                *(agent.decider for agent in self.catalog.agents.values()),
            },
            currencies=currencies_of(self.settings),
            topics={names.name(topic): topic for topic in _KNOWN_TOPICS},
        )

    @cached_property
    def codec(self) -> Codec:
        """Encodes and decodes this deployment's events."""
        return codec_for(self.settings)

    async def publish_schemas(self, writes: Iterable[str]) -> None:
        """Publish the schemas of the topics that a role writes, before its first record.

        Raises:
            SchemasUnavailable: the topic or the registry cannot be written.
        """
        await publish_schemas(self.codec, writes, settings=self.settings)

    def topic(self, logical: str) -> str:
        """The physical name of a topic."""
        return self.settings.topics.name(logical)

    def intake(
        self, sources: tuple[str, ...], *, role: RoleName, follows: RoleName | None = None
    ) -> Intake:
        """The checks of records from these logical topics; see `Intake`."""
        return Intake(
            self.codec,
            topics={self.topic(logical): logical for logical in sources},
            role=role,
            follows=follows,
            partitions=self.settings.partitions,
            partitioner=partitioner(self.settings.turns.partitioner),
            max_record_bytes=self.settings.stream.max_record_bytes,
        )

    def raw_sink(self, role: str) -> RawSink | None:
        """Where a role keeps raw texts; None where the deployment keeps none.

        Raises:
            DeploymentError: its folder cannot be used.
        """
        options = self.settings.raw_sink
        if options.directory is None:
            return None
        try:
            return RawSink(
                options.directory,
                role=role,
                max_bytes=options.max_bytes,
                files=options.files,
                max_age_seconds=options.max_age_seconds,
                lost=self.metrics.raw_text_lost,
                now_ms=self.now_ms,
            )
        except RawSinkError as error:
            raise DeploymentError(str(error)) from error

    def publisher(self, role: str) -> Publisher:
        """Encodes the events of a role."""
        return Publisher(self.codec, self.settings.topics, role=role)


def currencies_of(settings: Settings) -> frozenset[str]:
    """The currencies of all prices that are configured."""
    prices = [getattr(one, "price", None) for one in settings.deciders.values()]
    return frozenset(price.currency for price in prices if isinstance(price, Price))


def made_by(
    options: PythonSettings, catalog: Catalog, *, where: str, method: str | None = None
) -> object:
    """Call the factory of a decider or classifier of the user's own.

    Args:
        options: where the factory is, and its arguments.
        catalog: its first argument.
        where: the configuration's path, for messages.
        method: what the made object must have; nothing is looked for when not given.

    Raises:
        DeploymentError: the target cannot be imported, is not callable, fails, or makes something
            else.
    """
    target = options.target
    module, _, name = target.partition(":")
    try:
        factory = getattr(importlib.import_module(module), name)
    except Exception as error:  # the module is the user's: importing it may do anything
        raise DeploymentError(f"{where}.target: cannot import {target!r}: {error}") from error
    if not callable(factory):
        raise DeploymentError(f"{where}.target: {target!r} is not callable")
    try:
        made: object = factory(catalog, **options.options)
    except Exception as error:  # as above
        raise DeploymentError(
            f"{where}: {target!r} failed when it was called with the catalog and the options "
            f"{sorted(options.options)}: {type(error).__name__}: {error}"
        ) from error
    if method is not None and not callable(getattr(made, method, None)):
        raise DeploymentError(
            f"{where}.target: {target!r} made a {type(made).__name__}, which has no {method}()"
        )
    return made


_KNOWN_TOPICS = (
    "conversation.turns",
    "conversation.control",
    "conversation.actions",
    "conversation.outcomes",
    "conversation.outbound",
    "conversation.answers",
    "conversation.labels",
    "conversation.timers",
    "conversation.live-actions",
    "tool.results",
    "shadow.proposals",
    "shadow.comparisons",
)
