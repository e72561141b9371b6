"""A process that must not start says why and what to do; a doctor says it before.

On a real broker: what is missing there is the point.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from tests.integration.deployed import command, deployed, written

EXIT_FAILED, REFUSED = 3, 4
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
    """The setting, its value, what failed and what to do: in every command that connects."""
    config = written(tmp_path, NOWHERE, "")
    (status, _, errors), (sick, found) = await asyncio.gather(
        command("run", "shadow", "-c", str(config)), doctor(config)
    )

    assert EXIT_FAILED == status, errors
    why = f"no Kafka at {NOWHERE} (kafka.bootstrap_servers): connection refused, nothing listens"
    remedy = "start the broker, or correct the address"
    assert f"the process ends with status 3: {why}" in errors
    assert remedy in errors
    assert "Traceback" not in errors
    assert 1 == sick
    assert ("fail", remedy) == (found["broker"][0], found["broker"][2])
    assert found["broker"][1].startswith(why)
    assert "topics" not in found


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("topics", "plan"), 1),
        (("topics", "apply"), 2),
        (("turns", "send", "turns.jsonl"), 2),
        (("chat",), 2),
        (("dlq", "list"), 2),
        (("dlq", "replay", "--all", "--yes"), 2),
        (("shadow", "report"), 2),
    ],
    ids=str,
)
async def test_without_a_broker_a_command_says_so(
    arguments: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    """In the same words, on the error stream; nothing of the client's own."""
    config = written(tmp_path, NOWHERE, "")
    lines = tmp_path / "turns.jsonl"
    lines.write_text('{"conversation_id": "c-1", "turn_id": "t-1", "text": "Hello"}\n')
    given = [str(lines) if one == lines.name else one for one in arguments]

    ended, output, errors = await command(*given, "-c", str(config))

    assert status == ended, errors
    said = re.sub(r"\s+", " ", output + errors)
    assert f"no Kafka at {NOWHERE} (kafka.bootstrap_servers): connection refused" in said
    assert "start the broker, or correct the address" in said
    assert "Traceback" not in said


async def test_a_broker_that_speaks_otherwise_is_told_from_one_that_is_not_there(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    """TLS or a user where the port has neither: what is configured is named."""
    said = {}
    for protocol in ("SSL", "SASL_PLAINTEXT"):
        user = {"sasl_username": "alice", "sasl_password": "env:PASSWORD_OF_ALICE"}
        kafka = {
            "bootstrap_servers": kafka_bootstrap,
            "security_protocol": protocol,
            **(user if protocol.startswith("SASL") else {}),
        }
        config = written(tmp_path, "", "", name=f"{protocol}.yaml", kafka=kafka)
        status, _, said[protocol] = await command(
            "topics", "plan", "-c", str(config), PASSWORD_OF_ALICE="hunter2"
        )
        assert 1 == status, said[protocol]
        assert f"Kafka at {kafka_bootstrap} (kafka.bootstrap_servers)" in said[protocol]
        assert "Traceback" not in said[protocol]
        assert "hunter2" not in said[protocol]

    assert "kafka.security_protocol is SSL" in said["SSL"]
    assert "refuses the user 'alice'" in said["SASL_PLAINTEXT"]


async def test_a_secret_that_is_not_there_is_named_to_who_chats(tmp_path: Path) -> None:
    """Status 2, and the variable to set."""
    kafka = {
        "bootstrap_servers": NOWHERE,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_username": "alice",
        "sasl_password": "env:PASSWORD_OF_ALICE",
    }
    config = written(tmp_path, "", "", kafka=kafka)

    status, output, errors = await command("chat", "-c", str(config), PASSWORD_OF_ALICE="")

    assert 2 == status
    assert "set the environment variable PASSWORD_OF_ALICE" in output + errors
    assert "Traceback" not in errors
