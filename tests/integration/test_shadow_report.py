"""`turnstream shadow report` counts committed comparisons, on a real broker."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from aiokafka import AIOKafkaProducer

from tests.unit.demo import events
from turnstream.config import load_settings
from turnstream.core.publications import ShadowComparison
from turnstream.stream.registry import codec_for
from turnstream.stream.topics import apply

DAY = 86_400_000


def report(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "turnstream.cli", "shadow", "report", *arguments, "-c", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def configured(tmp_path: Path, bootstrap: str, prefix: str) -> Path:
    """A configuration with topics of its own."""
    path = tmp_path / "turnstream.yaml"
    settings = {
        "kafka": {"bootstrap_servers": bootstrap},
        "topics": {"prefix": prefix},
        "partitions": 3,
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


@pytest.mark.timeout(180)
async def test_committed_comparisons_of_a_time_are_counted(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Per candidate; what was aborted, is too old or is no comparison is not counted."""
    config = configured(tmp_path, kafka_bootstrap, topic_prefix)
    settings = load_settings(config)
    await apply(settings)
    now = time.time_ns() // 1_000_000
    codec, topic = codec_for(settings), settings.topics.name("shadow.comparisons")

    def value(live: str, candidate: str = "candidate") -> bytes:
        event = events.comparison("x", events.ASK, live_action=live).event
        assert isinstance(event, ShadowComparison)
        return codec.encode(event.model_copy(update={"candidate": candidate}))

    producer = AIOKafkaProducer(
        bootstrap_servers=kafka_bootstrap, transactional_id=f"{topic_prefix}x"
    )
    async with producer:
        async with producer.transaction():
            await producer.send(topic, value("ask"), partition=0, timestamp_ms=now - 9 * DAY)
            for number in range(4):
                await producer.send(topic, value("ask"), partition=number % 3, timestamp_ms=now)
            await producer.send(topic, value("refuse"), partition=0, timestamp_ms=now)
            await producer.send(topic, value("ask", "other"), partition=1, timestamp_ms=now)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, value("ask"), partition=2, timestamp_ms=now)
        await producer.abort_transaction()
    run = report(config, "--since", "5d", "-o", "json")

    assert (0, "") == (run.returncode, run.stderr)
    found = json.loads(run.stdout)
    assert ["candidate", "other"] == list(found)
    assert (5, 4) == (found["candidate"]["comparisons"], found["candidate"]["same_action"])
    assert (4, 1) == tuple(found["candidate"]["actions"][live]["ask"] for live in ("ask", "refuse"))

    everything = report(config, "--candidate", "candidate")
    assert "candidate: Shadow agreement: 5/6 the same action" in everything.stdout
    assert "no comparisons\n" == report(config, "--until", "2020-01-01").stdout

    async with AIOKafkaProducer(bootstrap_servers=kafka_bootstrap) as plain:
        await plain.send_and_wait(topic, b"nonsense", partition=0, timestamp_ms=now)
    broken = report(config)
    assert 1 == broken.returncode
    assert "1 records are not understood" in broken.stderr


def test_no_broker_is_explained(tmp_path: Path) -> None:
    """Status 2 and what to check."""
    run = report(configured(tmp_path, "127.0.0.1:1", "none."))

    assert 2 == run.returncode
    assert "no Kafka at 127.0.0.1:1 (kafka.bootstrap_servers): connection refused" in run.stderr
    assert "Traceback" not in run.stderr
