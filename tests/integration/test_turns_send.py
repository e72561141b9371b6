"""`turnstream turns send` brings files to the topic, in order, and names what it did not send."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import orjson
import pytest
import yaml

from turnstream.config import load_settings
from turnstream.core.events import ConversationTurn
from turnstream.demo.traffic import Traffic
from turnstream.stream.topics import apply

LINES = 400
CONVERSATIONS = 7


def send(*arguments: str, lines: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "turnstream.cli", "turns", "send", *arguments],
        input=lines,
        capture_output=True,
        timeout=60,
        check=False,
    )


async def configured(tmp_path: Path, bootstrap: str, prefix: str, partitioner: str) -> Path:
    """A configuration with topics of its own."""
    path = tmp_path / "turnstream.yaml"
    settings = {
        "kafka": {"bootstrap_servers": bootstrap},
        "topics": {"prefix": prefix},
        "partitions": 3,
        "turns": {"partitioner": partitioner},
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    await apply(load_settings(path))
    return path


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
async def test_sends_in_order(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, partitioner: str
) -> None:
    """Each conversation's turns are on its partition, in the order of the file."""
    config = await configured(tmp_path, kafka_bootstrap, topic_prefix, partitioner)
    file = tmp_path / "turns.jsonl"
    with file.open("wb") as lines:
        for number in range(LINES):
            conversation = f"s-{number % CONVERSATIONS}"
            payload = {"user_message": str(number)}
            lines.write(orjson.dumps({"session_id": conversation, "payload": payload}) + b"\n")
    async with Traffic(
        load_settings(config), topics=("conversation.turns",), begin="beginning"
    ) as traffic:
        run = send(str(file), "--config", str(config), "--channel", "api")

        assert 0 == run.returncode, run.stderr
        assert f"{LINES} sent".encode() in run.stdout
        await traffic.until(lambda: len(traffic.all) >= LINES or None, seconds=30, what="all turns")
    texts: dict[str, list[int]] = defaultdict(list)
    partitions: dict[str, set[int]] = defaultdict(set)
    for one in traffic.all:
        assert isinstance(one.event, ConversationTurn)
        texts[one.conversation_id].append(int(one.event.text))
        partitions[one.conversation_id].add(one.partition)

    assert CONVERSATIONS == len(texts)
    assert LINES == sum(map(len, texts.values()))
    assert all(sorted(numbers) == numbers for numbers in texts.values())
    assert all(len(places) == 1 for places in partitions.values())


async def test_bad_lines_are_named_and_the_rest_is_sent(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """A pipe with bad lines: each is named with its number and reason, the status is 1."""
    config = await configured(tmp_path, kafka_bootstrap, topic_prefix, "murmur2")
    good = b'{"conversation_id": "c", "channel_id": "web", "text": "x"}'
    run = send("-", "--config", str(config), lines=good + b"\n\nnope\n{}\n" + good)

    assert 1 == run.returncode
    assert b"2 sent" in run.stdout
    assert b"2 refused" in run.stdout
    errors = run.stderr.decode().splitlines()
    assert errors[0].startswith("stdin:3: not JSON")
    assert errors[1].startswith("stdin:4: ")


async def test_wrong_partition_count_is_refused(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Turns are not sent to partitions on which every role would refuse them."""
    config = await configured(tmp_path, kafka_bootstrap, topic_prefix, "murmur2")
    config.write_text(config.read_text().replace("partitions: 3", "partitions: 5"))
    line = b'{"conversation_id": "c", "channel_id": "web", "text": "x"}\n'
    run = send("-", "--config", str(config), lines=line)

    assert 2 == run.returncode
    assert b"has 3 partitions, the configuration says 5" in run.stderr


def test_missing_file_is_explained() -> None:
    """A file that is not there ends with status 2 and its name."""
    run = send("no-such-file.jsonl")

    assert 2 == run.returncode
    assert b"no-such-file.jsonl" in run.stderr
