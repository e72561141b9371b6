"""A Faust agent as the documentation writes it: table write, `send`; defaults otherwise."""

import sys
from inspect import isawaitable
from typing import Any

import faust

from benchmarks.peers.options import Options, read
from benchmarks.work import PARTITIONS, Received, Work
from turnstream.core.record import dump, load


class ConversationCodec(faust.Codec):
    """The state in the table's changelog, as the role writes it."""

    def _dumps(self, obj: Any) -> bytes:
        return dump(obj)

    def _loads(self, s: bytes) -> Any:
        return load(s)


def build(options: Options) -> faust.App:
    work = Work(options.settings)
    faust.serializers.codecs.register("conversation", ConversationCodec())
    app = faust.App(
        options.group,
        broker=f"kafka://{options.settings.kafka.bootstrap_servers}",
        store="memory://",
        datadir=str(options.folder),
        topic_partitions=PARTITIONS,
        web_enabled=False,
    )
    raw: dict[str, Any] = {
        "key_type": bytes,
        "value_type": bytes,
        "key_serializer": "raw",
        "value_serializer": "raw",
    }
    source = app.topic(work.turns, **raw)
    table: Any = app.Table("state", key_type=bytes, value_type=bytes)
    # Faust takes a table's codec from its value type, which only its own records can name.
    table.value_serializer = "conversation"
    outputs: dict[str, Any] = {}

    @app.agent(source)
    async def decide(stream: Any) -> None:
        async for event in stream.events():
            options.meter.first_record()
            message = event.message
            record = Received(
                message.topic,
                message.partition,
                message.offset,
                message.key,
                message.value,
                int(message.timestamp * 1000),
            )
            handled = work.decide(record, table.get(record.key))
            if isawaitable(handled):
                handled = await handled
            table[record.key] = work.state(handled)
            for publication in handled.publications:
                topic = outputs.get(publication.topic)
                if topic is None:
                    topic = outputs[publication.topic] = app.topic(publication.topic, **raw)
                await topic.send(
                    key=publication.key,
                    value=publication.value,
                    headers=dict(publication.headers),
                )

    return app


def main() -> None:
    app = build(read())
    sys.argv[1:] = ["worker", "-l", "info", "--without-web"]
    app.main()


if __name__ == "__main__":
    main()
