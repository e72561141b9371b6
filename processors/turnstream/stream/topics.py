"""How a cluster is brought to the topics that a deployment needs.

`plan` compares the definitions with a cluster, `apply` creates what is missing and alters settings
that differ. Neither ever deletes a topic or changes a partition count: with another
count, keys move to other partitions, away from their conversation's order and state.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, for_code

from turnstream.config import Settings
from turnstream.stream.reachability import why_unreachable
from turnstream.stream.topic_definitions import (
    TopicDefinition,
    TopicsRefused,
    load_topics,
    milliseconds,
)

__all__ = [
    "Change",
    "Plan",
    "TopicDefinition",
    "TopicsRefused",
    "WantedTopic",
    "apply",
    "load_topics",
    "plan",
    "wanted_topics",
]

DEAD_LETTERS: Final = ".dlq"

# What a dead letter's headers may add to its record; a smaller margin would refuse records that
# were just small enough for their source topic.
_DEAD_LETTER_MARGIN: Final = 64 * 1024
# A broker that accepts and does not answer must not hang the command.
_REQUEST_MS: Final = 30_000
# Changes take a moment to reach the brokers; a program started before would miss a topic.
_VISIBLE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
_SET_ON_THE_TOPIC: Final = 1


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic as it should be on the cluster."""

    name: str
    """Physical name."""
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a topic and its definition."""

    topic: str
    """Physical name."""
    kind: Literal["create", "configure", "partitions", "replication"]
    """The last two are reported and never applied."""
    detail: str
    wanted: WantedTopic
    settings: Mapping[str, str] = field(default_factory=dict)
    """For `configure`: every setting that the topic will have of its own."""

    def __str__(self) -> str:
        return f"{self.topic}: {self.kind}: {self.detail}"

    @property
    def applicable(self) -> bool:
        """True when `apply` makes the change."""
        return self.kind in ("create", "configure")

    @property
    def blocking(self) -> bool:
        """True when roles refuse to start with this difference and `apply` cannot mend it."""
        return self.kind == "partitions"


@dataclass(frozen=True, slots=True)
class Plan:
    """How a cluster differs from the topics that a deployment needs."""

    changes: tuple[Change, ...]
    topics: int
    """How many topics were compared."""

    @property
    def blocked(self) -> bool:
        """True when something differs that `apply` cannot mend and roles refuse to start with."""
        return any(change.blocking for change in self.changes)


def wanted_topics(
    settings: Settings,
    *,
    definitions: Iterable[TopicDefinition] | None = None,
    partitions: int | None = None,
    replication_factor: int | None = None,
) -> tuple[WantedTopic, ...]:
    """Give the topics that a deployment needs, those of dead letters and changelogs included.

    Args:
        settings: The deployment: names, shared counts.
        definitions: The packaged ones when not given.
        partitions: In place of the settings' shared partition count.
        replication_factor: In place of the settings'; holds for every topic then.
    """
    wanted: list[WantedTopic] = []
    for definition in load_topics() if definitions is None else definitions:
        role = definition.changelog_of
        name = settings.changelog(role) if role else settings.topics.name(definition.name)
        count = definition.partitions
        count = (partitions or settings.partitions) if count == "shared" else count
        replicas = definition.replication_factor
        replicas = settings.replication_factor if replicas == "shared" else replicas
        replicas = replication_factor or replicas
        wanted.append(WantedTopic(name, count, replicas, definition.settings()))
        if (dlq := definition.dlq) is not None:
            own = {
                "cleanup.policy": "delete",
                "max.message.bytes": str(definition.max_message_bytes + _DEAD_LETTER_MARGIN),
                "retention.ms": milliseconds(dlq.retention),
            }
            wanted.append(WantedTopic(name + DEAD_LETTERS, dlq.partitions, replicas, own))
    return tuple(wanted)


async def plan(
    settings: Settings, *, partitions: int | None = None, replication_factor: int | None = None
) -> Plan:
    """Compare the deployment's cluster with the topics it needs, without changing it.

    Raises:
        TopicsRefused: The cluster cannot be reached, or does not allow the question.
    """
    wanted = wanted_topics(settings, partitions=partitions, replication_factor=replication_factor)
    async with _Cluster(settings.kafka.client_options()) as cluster:
        return Plan(await cluster.compare(wanted), topics=len(wanted))


async def apply(
    settings: Settings, *, partitions: int | None = None, replication_factor: int | None = None
) -> Plan:
    """Create missing topics and alter settings that differ; return the differences found.

    Those of kind `partitions` and `replication` are still there afterwards. Returns when brokers
    show the others as done.

    Raises:
        TopicsRefused: The cluster cannot be reached, or refused a change.
    """
    wanted = wanted_topics(settings, partitions=partitions, replication_factor=replication_factor)
    async with _Cluster(settings.kafka.client_options()) as cluster:
        changes = await cluster.compare(wanted)
        await cluster.change(changes, wanted)
        return Plan(changes, topics=len(wanted))


class TopicsUnsupported(TopicsRefused):
    """The broker has no administration of topics; nothing else is wrong with it."""


class _Cluster:
    """One connection to a cluster's administration."""

    def __init__(self, client_options: Mapping[str, object]) -> None:
        self._where = client_options.get("bootstrap_servers")
        self._options: dict[str, Any] = {**client_options, "request_timeout_ms": _REQUEST_MS}
        self._client = AIOKafkaAdminClient(**self._options)

    async def __aenter__(self) -> Self:
        try:
            await self._client.start()
        except (KafkaError, OSError) as error:
            await self._client.close()
            raise TopicsRefused(str(await why_unreachable(self._options, error))) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def compare(self, wanted: Sequence[WantedTopic]) -> tuple[Change, ...]:
        existing = await self._describe()
        known = [topic.name for topic in wanted if topic.name in existing]
        try:
            own = await self._settings(known)
        except IncompatibleBrokerVersion as error:
            raise TopicsUnsupported(
                f"the broker at {self._where} does not tell the settings of topics: the embedded "
                "broker of the demo is one, and makes every topic by itself"
            ) from error
        changes: list[Change] = []
        for topic in wanted:
            if topic.name not in existing:
                detail = (
                    f"{_counted(topic.partitions, 'partition')}, "
                    f"{_counted(topic.replication_factor, 'replica')}"
                )
                changes.append(Change(topic.name, "create", detail, topic))
                continue
            changes.extend(_differences(topic, existing[topic.name], own[topic.name]))
        return tuple(changes)

    async def change(self, changes: Sequence[Change], wanted: Sequence[WantedTopic]) -> None:
        """Make the changes, again until nothing is left to make.

        Brokers show a change a moment later. One round may not do either: a topic that somebody
        else has just made is not there to compare, and cannot be created.

        Raises:
            TopicsRefused: A change was refused, or accepted and not seen in time.
        """
        left = [c for c in changes if c.applicable]
        try:
            async with asyncio.timeout(_VISIBLE_SECONDS):
                while left:
                    await self.create([c.wanted for c in left if c.kind == "create"])
                    await self.configure([c for c in left if c.kind == "configure"])
                    await asyncio.sleep(_POLL_SECONDS)
                    left = [c for c in await self.compare(wanted) if c.applicable]
        except TimeoutError:
            raise TopicsRefused(
                f"accepted by the cluster and not seen after {_VISIBLE_SECONDS:g} s: "
                f"{'; '.join(map(str, left))}"
            ) from None

    async def create(self, topics: Sequence[WantedTopic]) -> None:
        if not topics:
            return
        requested = [
            NewTopic(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                topic_configs=dict(topic.settings),
            )
            for topic in topics
        ]
        response = await self._client.create_topics(requested)
        for name, code, *message in response.topic_errors:
            # Somebody else may have created it since the comparison.
            if code and for_code(code).__name__ != "TopicAlreadyExistsError":
                raise TopicsRefused(
                    f"topic {name!r} was not created: {for_code(code).__name__} "
                    f"{message[0] if message and message[0] else ''}".rstrip()
                )

    async def configure(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        responses = await self._client.alter_configs(
            [
                ConfigResource(ConfigResourceType.TOPIC, change.topic, dict(change.settings))
                for change in changes
            ]
        )
        for response in responses:
            for code, message, _, name in response.resources:
                if code:
                    raise TopicsRefused(
                        f"settings of topic {name!r} were not altered: "
                        f"{for_code(code).__name__} {message or ''}".rstrip()
                    )

    async def _describe(self) -> dict[str, tuple[int, int]]:
        """Give each topic's partition count and replication factor.

        All topics are asked for: asking by name would create them where that is automatic.
        """
        try:
            described = await self._client.describe_topics()
        except KafkaError as error:
            raise TopicsRefused(f"cannot list the topics of {self._where}: {error!r}") from error
        return {
            topic["topic"]: (
                len(topic["partitions"]),
                min((len(p["replicas"]) for p in topic["partitions"]), default=0),
            )
            for topic in described
        }

    async def _settings(self, names: Sequence[str]) -> dict[str, dict[str, tuple[str, bool]]]:
        """Give each topic's settings: name to value, and whether the topic set it itself."""
        # One that is not there is asked about where none is: whether the broker tells at all.
        resources_ = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names or ("-",)]
        found: dict[str, dict[str, tuple[str, bool]]] = {}
        for response in await self._client.describe_configs(resources_):
            for code, message, _, name, entries in response.resources:
                if not names:
                    continue
                if code:
                    raise TopicsRefused(
                        f"cannot read the settings of topic {name!r}: "
                        f"{for_code(code).__name__} {message or ''}".rstrip()
                    )
                found[name] = {
                    key: (value or "", source == _SET_ON_THE_TOPIC)
                    for key, value, _, source, *_ in entries
                }
        return found


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _differences(
    topic: WantedTopic, counts: tuple[int, int], own: Mapping[str, tuple[str, bool]]
) -> list[Change]:
    partitions, replicas = counts
    changes: list[Change] = []
    if partitions != topic.partitions:
        detail = f"has {partitions}, wanted {topic.partitions}; never changed: keys would move"
        changes.append(Change(topic.name, "partitions", detail, topic))
    if replicas != topic.replication_factor:
        detail = f"has {replicas}, wanted {topic.replication_factor}; reassign to change it"
        changes.append(Change(topic.name, "replication", detail, topic))
    differing = {
        key: (own.get(key, ("unset", False))[0], value)
        for key, value in topic.settings.items()
        if not _same(own.get(key, ("", False))[0], value)
    }
    if differing:
        detail = "; ".join(f"{key}: {has} -> {value}" for key, (has, value) in differing.items())
        # The request replaces all of a topic's own settings: those that an operator made stay in.
        kept = {key: value for key, (value, is_own) in own.items() if is_own}
        settings = kept | dict(topic.settings)
        changes.append(Change(topic.name, "configure", detail, topic, settings))
    return changes


def _same(actual: str, wanted: str) -> bool:
    if actual == wanted:
        return True
    try:
        return float(actual) == float(wanted)
    except ValueError:
        return False
