"""A process that must not start says why and what to do; a doctor says it before.

On a real broker: what is missing there is the point.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient

from tests.integration.deployed import command, deployed, written

REFUSED = 4
NOWHERE = "127.0.0.1:1"


async def doctor(config: Path) -> tuple[int, dict[str, tuple[str, str, str]]]:
    """Exit status, and each check with its status, detail and remedy."""
    status, output, errors = await command("doctor", "-c", str(config), "-o", "json")
    assert "Traceback" not in errors
    findings: list[dict[str, Any]] = json.loads(output)
    return status, {one["check"]: (one["status"], one["detail"], one["remedy"]) for one in findings}


async def test_without_topics_nothing_starts(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """The refusal and the doctor name the missing topics and the command that makes them."""
    config = written(tmp_path, kafka_bootstrap, topic_prefix)
    (status, _, errors), (sick, found) = await asyncio.gather(
        command("run", "decide", "-c", str(config)), doctor(config)
    )

    assert REFUSED == status, errors
    assert "start refused: topics do not exist" in errors
    assert f"{topic_prefix}conversation.turns" in errors
    assert f"{topic_prefix}conversation.outcomes" in errors
    assert f"{topic_prefix}turnstream.schemas" in errors
    assert "turnstream topics apply" in errors
    assert "Traceback" not in errors
    assert 1 == sick
    assert ["topics"] == [check for check, one in found.items() if one[0] == "fail"]
    assert {"configuration", "catalog", "models", "broker"} <= found.keys()
    assert ("fail", "turnstream topics apply") == (found["topics"][0], found["topics"][2])
    assert f"{topic_prefix}conversation.turns: create" in found["topics"][1]


async def test_counts_offsets_and_written_topics_are_checked(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Another partition count, a new group without a place, a topic only written: all refused."""
    async with deployed(kafka_bootstrap, topic_prefix, tmp_path) as on:
        status, found = await doctor(on.config)

        assert 0 == status
        assert "fail" not in {one[0] for one in found.values()}
        assert ("ok", "all 28 as they should be") == found["topics"][:2]

        six = written(tmp_path, kafka_bootstrap, topic_prefix, name="six.yaml", partitions=6)
        placeless = written(
            tmp_path, kafka_bootstrap, topic_prefix, name="placeless.yaml", start_from=None
        )
        (status, _, errors), (lost, _, why), (sick, found) = await asyncio.gather(
            command("run", "answer", "-c", str(six)),
            command("run", "decide", "-c", str(placeless)),
            doctor(six),
        )

        assert REFUSED == status, errors
        assert "`partitions` is 6 in the configuration" in errors
        assert f"{topic_prefix}conversation.actions has 4" in errors
        assert "set `partitions` to what the topics have" in errors
        assert REFUSED == lost, why
        assert "set start_from to `latest`, `earliest` or a time" in why
        assert (1, "fail") == (sick, found["topics"][0])
        assert "set `partitions`" in found["topics"][2]

        admin = AIOKafkaAdminClient(bootstrap_servers=kafka_bootstrap)
        await admin.start()
        await admin.delete_topics([on.topic("conversation.outcomes")])
        await admin.close()
        status, _, errors = await command("run", "decide", "-c", str(on.config))

        assert REFUSED == status, errors
        assert f"topics do not exist: {topic_prefix}conversation.outcomes;" in errors


async def test_without_a_broker_both_say_so(tmp_path: Path) -> None:
    """An address where nothing listens is named, and that the broker must run."""
    config = written(tmp_path, NOWHERE, "")
    (status, _, errors), (sick, found) = await asyncio.gather(
        command("run", "shadow", "-c", str(config)), doctor(config)
    )

    assert REFUSED == status, errors
    assert f"no Kafka at {NOWHERE}: check kafka.bootstrap_servers" in errors
    assert 1 == sick
    assert ("fail", "check kafka.bootstrap_servers and that the broker runs") == (
        found["broker"][0],
        found["broker"][2],
    )
    assert "topics" not in found
