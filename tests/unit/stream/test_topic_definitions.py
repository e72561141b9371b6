"""The topic definitions that are shipped, and faults in definitions."""

from pathlib import Path

import pytest

from turnstream.config import LOGICAL_TOPICS, Settings, TopicSettings
from turnstream.stream.contracts import EVENTS, subject_of
from turnstream.stream.topics import TopicsRefused, load_topics, wanted_topics

ROLES = ("decide", "execute", "answer", "classify", "shadow")
DEFINITIONS = {definition.name: definition for definition in load_topics()}


def test_every_topic_is_defined() -> None:
    """The logical topics and one changelog per role, and nothing else."""
    changelogs = {f"turnstream-{role}-state-changelog" for role in ROLES}

    assert set(LOGICAL_TOPICS) | changelogs == set(DEFINITIONS)


@pytest.mark.parametrize("topic", EVENTS)
def test_topics_of_events(topic: str) -> None:
    """A topic of events names its subject, shares the count, and states a finite retention."""
    definition = DEFINITIONS[topic]

    assert subject_of(topic) == definition.subject
    assert definition.partitions == "shared"
    assert definition.key == "conversation_id"
    assert definition.retention is not None


@pytest.mark.parametrize("topic", DEFINITIONS)
def test_what_roles_read_has_dead_letters(topic: str) -> None:
    """The event topics that a role reads have a dead-letter topic, and the shadow has one."""
    definition = DEFINITIONS[topic]
    read_by_a_role = topic in EVENTS and bool(set(ROLES) & set(definition.read_by))

    assert (read_by_a_role or topic == "shadow.proposals") == (definition.dlq is not None)


@pytest.mark.parametrize("role", ROLES)
def test_changelogs(role: str) -> None:
    """Changelogs are compacted only, roll often and are cleaned early."""
    definition = DEFINITIONS[f"turnstream-{role}-state-changelog"]

    assert role == definition.changelog_of
    assert {
        "cleanup.policy": "compact",
        "max.message.bytes": "1048576",
        "segment.bytes": "67108864",
        "segment.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.1",
        "min.compaction.lag.ms": "3600000",
        "max.compaction.lag.ms": "86400000",
    } == definition.settings()


def test_physical_names_and_counts() -> None:
    """Prefix, overrides and counts of the deployment reach every topic."""
    settings = Settings(
        topics=TopicSettings(prefix="staging.", turns="support.chat"),
        partitions=12,
        replication_factor=3,
    )
    wanted = {topic.name: topic for topic in wanted_topics(settings)}

    assert wanted["support.chat"].partitions == 12
    assert wanted["support.chat.dlq"].partitions == 1
    assert wanted["support.chat.dlq"].settings["max.message.bytes"] == str(1048576 + 65536)
    assert wanted["staging.turnstream-decide-state-changelog"].partitions == 12
    assert wanted["staging.turnstream.schemas"].partitions == 1
    assert wanted["staging.tool.results"].settings["retention.ms"] == str(7 * 86_400_000)
    assert {topic.replication_factor for topic in wanted.values()} == {3}


def test_counts_given_for_one_run() -> None:
    """Counts given to a command replace the configured ones."""
    wanted = wanted_topics(Settings(), partitions=2, replication_factor=1)

    assert {2, 1} == {topic.partitions for topic in wanted}


GOOD = """
name: t
description: d
key: k
subject: null
partitions: shared
replication_factor: shared
retention: P1D
cleanup.policy: delete
max.message.bytes: 1000
written_by: [a]
read_by: [b]
"""


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (GOOD.replace("P1D", "null"), "retention is given exactly when cleanup.policy is delete"),
        (GOOD.replace("delete", "compact"), "retention is given exactly when"),
        (GOOD.replace("shared", "many", 1), "partitions"),
        (GOOD + "colour: red\n", "colour: Extra inputs are not permitted"),
        (GOOD.replace("name: t", "name: u"), "name is 'u', the file's must be the same"),
        ("name: [", "not YAML"),
        ("", "file: Input should be"),
    ],
)
def test_faulty_definitions_are_named(tmp_path: Path, text: str, named: str) -> None:
    """A faulty file is refused with its name and the key."""
    (tmp_path / "t.yaml").write_text(text)

    with pytest.raises(TopicsRefused) as caught:
        load_topics(tmp_path)
    assert str(caught.value).startswith("t.yaml: ")
    assert named in str(caught.value)
