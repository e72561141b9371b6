"""`turnstream turns send` brings files to the topic, in order, and names what it did not send."""

import asyncio
import io
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import orjson
import pytest
import yaml
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from rich.console import Console
from rich.progress import Progress

from turnstream.cli.sending import Sender
from turnstream.cli.turn_lines import LineReader
from turnstream.config import load_settings
from turnstream.core.events import ConversationTurn
from turnstream.demo.traffic import Traffic
from turnstream.roles.writing import EventWriter
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


def turn(text: str, *, conversation: str = "c") -> bytes:
    """A line."""
    fields = {"conversation_id": conversation, "channel_id": "web", "text": text}
    return orjson.dumps(fields) + b"\n"


async def texts_of(config: Path, *, count: int, topic: str | None = None) -> list[str]:
    """What is on a topic of turns, when so many records are."""
    settings = load_settings(config)
    topics = settings.topics.model_copy(update={"turns": topic})
    settings = settings.model_copy(update={"topics": topics})
    async with Traffic(settings, topics=("conversation.turns",), begin="beginning") as traffic:
        await traffic.until(lambda: len(traffic.all) >= count or None, seconds=30, what="turns")
        return [one.event.text for one in traffic.all if isinstance(one.event, ConversationTurn)]


async def topic_of_at_most(limit: int, *, bootstrap: str, prefix: str) -> str:
    """A topic for turns that takes so many bytes at once, and no more."""
    name = f"{prefix}narrow"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        made = NewTopic(name, 3, 1, topic_configs={"max.message.bytes": str(limit)})
        await admin.create_topics([made])
        async with asyncio.timeout(30):
            # The brokers show a topic a moment after it has been made.
            while name not in await admin.list_topics():  # noqa: ASYNC110 - nothing tells us
                await asyncio.sleep(0.1)
    finally:
        await admin.close()
    return name


async def test_too_large_lines_are_named_and_the_rest_is_sent(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Larger than the roles accept, than the producer takes, or one line without an end."""
    config = await configured(tmp_path, kafka_bootstrap, topic_prefix, "murmur2")
    sizes = (10, 300_000, 20, 2_000_000, 30, 10_000_000, 40)
    run = send("-", "--config", str(config), lines=b"".join(turn("x" * size) for size in sizes))

    assert 1 == run.returncode, run.stderr
    assert b"4 sent" in run.stdout
    assert b"3 refused" in run.stdout
    errors = run.stderr.decode().splitlines()
    assert ["stdin:2: too large", "stdin:4: too large", "stdin:6: too long"] == [
        ":".join(error.split(":")[:3]) for error in errors
    ]
    assert [10, 20, 30, 40] == [len(text) for text in await texts_of(config, count=4)]


async def test_a_topic_that_takes_less_is_respected(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Below the size of a batch, records that fit alone are not refused together."""
    config = await configured(tmp_path, kafka_bootstrap, topic_prefix, "murmur2")
    topic = await topic_of_at_most(2_000, bootstrap=kafka_bootstrap, prefix=topic_prefix)
    texts = [f"{number} " + "x" * (3_000 if number == 50 else 300) for number in range(100)]
    run = send(
        "-", "--config", str(config), "--topic", topic, lines=b"".join(turn(text) for text in texts)
    )

    assert 1 == run.returncode, run.stderr
    assert b"99 sent" in run.stdout
    assert b"stdin:51: too large" in run.stderr
    assert b"max.message.bytes" in run.stderr
    assert texts[:50] + texts[51:] == await texts_of(config, count=99, topic=topic)


async def test_what_the_broker_refuses_is_named_and_the_rest_is_sent(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """A limit that it does not tell: the record is found among those of its batch."""
    config = await configured(tmp_path, kafka_bootstrap, topic_prefix, "murmur2")
    topic = await topic_of_at_most(2_500, bootstrap=kafka_bootstrap, prefix=topic_prefix)
    texts = [
        f"{number} " + "x" * (3_000 if number in (20, 21, 70) else 10) for number in range(100)
    ]
    file = tmp_path / "turns.jsonl"
    file.write_bytes(b"".join(turn(text) for text in texts))
    console = Console(file=io.StringIO(), width=200)
    sender = Sender(
        EventWriter(load_settings(config), topics={ConversationTurn: topic}),
        LineReader("turn"),
        name="in",
        console=console,
        progress=Progress(disable=True),
    )

    with file.open("rb") as source, pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnstream.roles.writing._batch_limits", no_limits)
        await sender.send(source.fileno(), rate=None)

    assert (97, 3) == (sender.sent, sender.refused)
    assert isinstance(console.file, io.StringIO)
    errors = console.file.getvalue().splitlines()
    assert ["in:21", "in:22", "in:71"] == [error.split(": ")[0] for error in errors]
    assert all("MessageSizeTooLargeError" in error for error in errors)
    expected = [text for text in texts if len(text) < 3_000]
    assert expected == await texts_of(config, count=97, topic=topic)


async def no_limits(*_: object, **__: object) -> dict[str, int]:
    """A broker that does not tell them."""
    return {}


async def test_interrupt_ends_it_while_its_input_is_silent(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Ctrl-C with standard input open and idle: status 130, and what was sent is told."""
    config = await configured(tmp_path, kafka_bootstrap, topic_prefix, "murmur2")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "turnstream.cli", "turns", "send", "-", "--config", str(config)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(turn("hello"))
    await process.stdin.drain()
    assert ["hello"] == await texts_of(config, count=1)
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(30):
        status = await process.wait()
        output, errors = await process.stdout.read(), await process.stderr.read()
    process.stdin.close()

    assert (130, b"") == (status, errors)
    assert b"interrupted: 1 sent" in output


def test_missing_file_is_explained() -> None:
    """A file that is not there ends with status 2 and its name."""
    run = send("no-such-file.jsonl")

    assert 2 == run.returncode
    assert b"no-such-file.jsonl" in run.stderr
