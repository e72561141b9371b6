"""A role's settings for the stream, and the checks before it reads or writes anything."""

import ast
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from aiokafka.errors import KafkaConnectionError

from tests import small_shop
from turnstream import stream
from turnstream.config import Settings
from turnstream.config.sections import StreamOptions
from turnstream.roles import run
from turnstream.roles.deployment import Deployment
from turnstream.roles.run import ROLES, build_role, check_topics, stream_settings, topics_of
from turnstream.stream import StreamSettings
from turnstream.stream.role import LaneFailed, StartRefused


def settings(**changes: Any) -> Settings:
    """Settings of the small shop under a prefix."""
    target = {"kind": "python", "target": "tests.small_shop:by_word"}
    fields = {
        "topics": {"prefix": "s."},
        "deciders": {"by_word": target},
        "shadow": {"decider": "by_word"},
    }
    return Settings.model_validate(fields | changes)


Built = Callable[[str, Settings], Any]
Checked = Callable[..., Awaitable[None]]


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Builds a role of the small shop."""
    path = tmp_path / "catalog.yaml"
    path.write_text(yaml.safe_dump(small_shop.CATALOG))

    def build(name: str, of: Settings) -> Any:
        return build_role(name, Deployment(of, path))  # type: ignore[arg-type]

    return build


@pytest.mark.parametrize("name", ROLES)
def test_names_are_physical_and_of_the_role(name: str, built: Built) -> None:
    """Group, topics and changelog carry the prefix; nothing but its own topics may be written."""
    of = settings(start_from="latest", stream={"attempts": 5, "slots": 7})
    role = built(name, of)

    stream = stream_settings(role, of)

    assert f"s.turnstream-{name}" == stream.group
    assert f"s.turnstream-{name}-state-changelog" == stream.changelog
    assert tuple(f"s.{topic}" for topic in role.sources) == stream.sources
    assert frozenset(f"s.{topic}" for topic in role.writes) == stream.writes
    assert stream.priority < set(stream.sources)
    assert ("latest", 5, 7) == (stream.start_from, stream.attempts, stream.slots)
    assert stream.heartbeat_interval_ms * 3 <= stream.session_timeout_ms
    assert (50_000, 300_000) == (stream.max_ahead_per_partition, stream.retry_patience_ms)
    # What readers accept, and room for a key: a role never publishes what no role can read.
    assert of.stream.max_record_bytes < stream.max_publication_bytes < stream.max_record_bytes


def test_a_record_is_rejected_by_one_role_only(built: Built) -> None:
    """However many read a topic, one of them dead-letters what nobody can read, and one does."""
    of = settings()
    roles = [built(name, of) for name in ROLES]
    rejects = Counter(topic for role in roles for topic in role.rejects)

    assert {topic for role in roles for topic in role.sources} - {"conversation.live-actions"} <= (
        rejects.keys()
    )
    assert {1} == set(rejects.values())
    for role in roles:
        elsewhere = stream_settings(role, of).rejected_elsewhere
        assert {f"s.{topic}" for topic in role.sources if topic not in role.rejects} == elsewhere


def test_a_shadows_dead_letters_are_its_own(built: Built) -> None:
    """What it cannot handle is no business of the topics it only looks at."""
    of = settings()

    assert "s.shadow.proposals.dlq" == stream_settings(built("shadow", of), of).dead_letter_topic
    assert stream_settings(built("decide", of), of).dead_letter_topic is None


def test_secrets_reach_the_stream_and_not_its_text(
    monkeypatch: pytest.MonkeyPatch, built: Built
) -> None:
    """A password is resolved for the clients and shown nowhere."""
    monkeypatch.setenv("KAFKA_PASSWORD", "SENTINEL")
    kafka = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": "me",
        "sasl_password": "env:KAFKA_PASSWORD",
    }
    of = settings(kafka=kafka)

    stream = stream_settings(built("answer", of), of)

    assert "SENTINEL" == stream.security.client_options()["sasl_plain_password"]
    assert "SENTINEL" not in repr(stream)
    assert "SENTINEL" not in repr(of)


def test_the_store_reaches_the_stream(built: Built) -> None:
    """Memory unless said otherwise; on disk with its directory."""
    of = settings()
    on_disk = settings(stream={"store": "rocksdict", "data_dir": "state"})
    streams = [stream_settings(built("decide", each), each) for each in (of, on_disk)]

    assert [("memory", None), ("rocksdict", "state")] == [
        (stream.store, stream.data_dir) for stream in streams
    ]


NAMED_OTHERWISE = {
    "max_queued_per_conversation": "max_queued_per_key",
    "max_record_bytes": "max_publication_bytes",
    "group_instance_id": "instance_id",
    "grace_seconds": "grace_seconds",
}
"""Keys of `stream` that reach the stream neither under their name nor as milliseconds."""

CHOSEN = {"store": "memory", "data_dir": "there", "group_instance_id": "one"}
"""Other values for keys that are no numbers."""


@pytest.mark.parametrize("key", StreamOptions.model_fields)
def test_every_key_of_the_section_reaches_the_stream(key: str, built: Built) -> None:
    """Whoever sets one gets what it says: none is read from the file, and then by nobody."""
    on_disk = {"store": "rocksdict", "data_dir": "here"}
    default = StreamOptions.model_fields[key].default
    other = CHOSEN[key] if key in CHOSEN else default + max(1, default // 10)
    before, after = (
        vars_of(stream_settings(built("decide", of), of))
        for of in (settings(stream=on_disk), settings(stream=on_disk | {key: other}))
    )
    changed = {name for name, value in after.items() if value != before[name]}

    assert NAMED_OTHERWISE.get(key, key.replace("_seconds", "_ms")) in changed


def vars_of(stream: StreamSettings) -> dict[str, Any]:
    """Each setting of a stream by its name."""
    return {field.name: getattr(stream, field.name) for field in fields(stream)}


def test_every_setting_of_the_stream_is_read_by_it() -> None:
    """One that nobody looks at would be a bound, or a promise, in name only."""
    read = {
        node.attr
        for path in Path(stream.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("settings")
    }

    assert set() == {field.name for field in fields(StreamSettings)} - read


class Cluster:
    """An administration client of a cluster with some topics."""

    counts: dict[str, int]
    down = False
    closed = 0

    def __init__(self, **_options: Any) -> None:
        """Take any options."""

    async def start(self) -> Self:
        """Connect."""
        if self.down:
            raise KafkaConnectionError
        return self

    async def describe_topics(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        """Describe topics as aiokafka does."""
        return [{"topic": one, "partitions": [{}] * self.counts.get(one, 0)} for one in topics]

    async def close(self) -> None:
        """Count."""
        type(self).closed += 1


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> type[Cluster]:
    """A cluster in place of a real one, with everything that the answer role needs."""

    class Mine(Cluster):
        counts = {  # noqa: RUF012 - of one test
            "s.conversation.actions": 4,
            "s.conversation.answers": 4,
            "s.conversation.outbound": 4,
            "s.turnstream-answer-state-changelog": 4,
            "s.turnstream.schemas": 1,
        }

    monkeypatch.setattr(run, "AIOKafkaAdminClient", Mine)
    return Mine


@pytest.fixture
def checked(built: Built) -> Checked:
    """Checks the topics of the answer role."""

    async def check(**changes: Any) -> None:
        of = settings(**changes)
        await check_topics(topics_of(built("answer", of), of), of)

    return check


async def test_fitting_topics_pass(cluster: type[Cluster], checked: Checked) -> None:
    """The schemas' topic has its own count, and is not needed with a registry."""
    await checked()
    del cluster.counts["s.turnstream.schemas"]
    await checked(registry={"url": "http://registry:8081"})

    assert 2 == cluster.closed


@pytest.mark.parametrize(
    "missing",
    [
        "s.conversation.actions",
        "s.conversation.outbound",
        "s.turnstream-answer-state-changelog",
        "s.turnstream.schemas",
    ],
)
async def test_a_missing_topic_refuses_the_start(
    cluster: type[Cluster], missing: str, checked: Checked
) -> None:
    """Read, written or its own; the command that makes it is named."""
    cluster.counts[missing] = 0

    with pytest.raises(StartRefused, match=rf"{missing}; .*`turnstream topics apply`"):
        await checked()
    assert 1 == cluster.closed


@pytest.mark.parametrize(
    "differing", ["s.conversation.actions", "s.conversation.outbound"], ids=["read", "written"]
)
async def test_another_partition_count_refuses_the_start(
    cluster: type[Cluster], differing: str, checked: Checked
) -> None:
    """Records would be refused as misplaced, or could not be written."""
    cluster.counts[differing] = 6

    with pytest.raises(StartRefused, match=rf"`partitions` is 4 .*{differing} has 6"):
        await checked()


async def test_all_topics_with_another_count_refuse_the_start(
    cluster: type[Cluster], checked: Checked
) -> None:
    """They fit together and not the configuration, by which keys are checked."""
    for topic in cluster.counts:
        cluster.counts[topic] = 6

    with pytest.raises(StartRefused, match="set `partitions` to what the topics have"):
        await checked()
    await checked(partitions=6)


async def test_a_broker_that_is_not_there_may_be_at_the_next_start(
    cluster: type[Cluster], checked: Checked
) -> None:
    """With its address, and nothing left open."""
    cluster.down = True

    with pytest.raises(LaneFailed, match=r"no Kafka at 127\.0\.0\.1:1 \(kafka\.bootstrap_serv"):
        await checked(kafka={"bootstrap_servers": "127.0.0.1:1"})
    assert 1 == cluster.closed
