"""quixstreams: state in RocksDB with a changelog topic, at least once (its default).

Its exactly-once mode commits a transaction every `commit_interval`: give `exactly-once`.
"""

import sys
from typing import Any

from quixstreams import Application, message_context
from quixstreams.models.serializers import Serializer

from benchmarks.peers.options import Options, read, waited
from benchmarks.work import Received, Work, outputs
from turnstream.core.conversation import Conversation
from turnstream.core.record import dump, load
from turnstream.stream import Publication


class _Value(Serializer):
    """Gives a publication's value, which is bytes already."""

    def __call__(self, value: Publication, ctx: Any) -> bytes:
        assert value.value is not None
        return value.value


def build(options: Options, guarantee: Any) -> Application:
    work = Work(options.settings)
    app = Application(
        broker_address=options.settings.kafka.bootstrap_servers,
        consumer_group=options.group,
        auto_offset_reset="earliest",
        state_dir=options.folder / "state",
        processing_guarantee=guarantee,
        loglevel="WARNING",
    )
    raw: dict[str, Any] = {"key_deserializer": "bytes", "value_deserializer": "bytes"}
    written: dict[str, Any] = {"key_serializer": "bytes", "value_serializer": _Value()}
    source = app.topic(work.turns, **raw)
    targets = {name: app.topic(name, **written) for name in outputs(options.settings).values()}
    hot: dict[bytes, Conversation] = {}

    def decide(value: bytes, key: bytes, timestamp: int, _headers: Any, state: Any) -> Any:
        options.meter.first_record()
        context = message_context()
        record = Received(context.topic, context.partition, context.offset, key, value, timestamp)
        # Like the other peers it keeps decoded states at hand; the store is still asked first.
        stored = state.get_bytes("conversation")
        known = None if stored is None else hot.get(key) or load(stored)
        handled = waited(work.decide(record, known))
        hot[key] = work.state(handled)
        state.set_bytes("conversation", dump(handled.state))
        return handled.publications

    frame = app.dataframe(source)
    frame = frame.apply(decide, stateful=True, metadata=True, expand=True)
    frame = frame.set_headers(_headers)
    frame.to_topic(lambda value, _key, _timestamp, _headers: targets[value.topic])
    return app


def _headers(value: Publication, _key: Any, _timestamp: int, _headers: Any) -> Any:
    return list(value.headers)


def main() -> None:
    guarantee = sys.argv[2] if len(sys.argv) > 2 else "at-least-once"
    build(read(), guarantee).run()


if __name__ == "__main__":
    main()
