"""The internals of Faust, mode and aiokafka that this package overrides or relies on.

Each is pinned by a hash of its source. A new release that changes one fails the test of this
table; read the change, adapt what depends on it, then run `python -m turnstream.stream.pins` for
the new table.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from typing import TYPE_CHECKING, Any, Final

from mode.services import ServiceTask

if TYPE_CHECKING:
    from collections.abc import Mapping

# ruff: noqa: E501 - one line per pin, as the tool prints it
PINS: Final[Mapping[str, str]] = {
    "faust.app.base:App.__init__": "698e2bf236c67369",
    "faust.app.base:App._new_transport": "42db531312dd776f",
    "faust.app.base:App._on_partitions_assigned": "de932b7927db85b3",
    "faust.app.base:App._on_partitions_revoked": "d5c895bbe57dc73a",
    "faust.app.base:App._on_rebalance_when_stopped": "1b172d9af8ff4eb6",
    "faust.app.base:App._stop_consumer": "55854a5de12c3f52",
    "faust.app.base:App._stop_fetcher": "68494554c248efcc",
    "faust.app.base:App.on_rebalance_end": "b7ff69e1e3772f30",
    "faust.app.base:App.on_start": "480d70c6c72d042d",
    "faust.app.base:App.on_stop": "bfe5a933defb2324",
    "faust.app.base:BootStrategy": "ecc05db10abceee9",
    "faust.tables.manager:TableManager.on_rebalance": "2d2c23a07bf54328",
    "faust.tables.manager:TableManager.on_start": "365dd25fbc0e0684",
    "faust.tables.manager:TableManager.on_stop": "351be149c0360de5",
    "faust.tables.manager:TableManager.recovery": "f0bf5de78b4c3d23",
    "faust.tables.recovery:Recovery.__init__": "acec96bd78fac09b",
    "faust.tables.recovery:Recovery._publish_stats": "48939a846a9af3a6",
    "faust.tables.recovery:Recovery._restart_recovery": "6bd8a8558a2dffe4",
    "faust.tables.recovery:Recovery._set_recovery_ended": "84badf3f2cfe0d02",
    "faust.tables.recovery:Recovery._slurp_changelogs": "7825c7e50f766d5a",
    "faust.tables.recovery:Recovery.on_partitions_revoked": "161b5e997f7cbfef",
    "faust.tables.recovery:Recovery.on_rebalance": "aa4d997a1795ceae",
    "faust.transport.consumer:Consumer._commit_handler": "4e5da5df073082d6",
    "faust.transport.consumer:Consumer._commit_livelock_detector": "af196ff46fd42a14",
    "faust.transport.consumer:Consumer._drain_messages": "44a2500309e83c63",
    "faust.transport.consumer:Consumer.commit": "a354437baaa08bf8",
    "faust.transport.consumer:Consumer.on_partitions_assigned": "29ce96596f05a18c",
    "faust.transport.consumer:Consumer.on_partitions_revoked": "d04b7ae72c6fc206",
    "faust.transport.consumer:Consumer.on_stop": "45b1d2210ce2b526",
    "faust.transport.consumer:Consumer.perform_seek": "0e8c130ff4b0afd8",
    "faust.transport.consumer:Consumer.resume_flow": "db59630f25b5819b",
    "faust.transport.consumer:Consumer.stop_flow": "cf7e875a2b0d40e8",
    "faust.transport.consumer:ConsumerThread": "4914fd92c2a06b39",
    "faust.transport.consumer:Fetcher": "c922e4ab78d9e296",
    "faust.transport.consumer:ThreadDelegateConsumer": "a1b934b198fae1c0",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread._create_consumer": "a4dc6ba0681a298c",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread._create_worker_consumer": "c2701bfc3e6f6cad",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread._ensure_consumer": "ff4a4c693b7ec63f",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread._fetch_records": "39a2c6c79fc1455a",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread.getmany": "26fc5fc9f3b667e1",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread.on_start": "38b4e8bd1e10723a",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread.on_thread_stop": "8dfc004e258b6c25",
    "faust.transport.drivers.aiokafka:AIOKafkaConsumerThread.seek": "1498560d05f02582",
    "faust.transport.drivers.aiokafka:Consumer._new_consumer_thread": "0870ec53dea75083",
    "faust.transport.drivers.aiokafka:ConsumerRebalanceListener": "f3d04f29dfb3f716",
    "faust.worker:Worker.on_setup_root_logger": "0d468284fb5c8880",
    "mode.services:Service._crash": "7bc0c709a151d556",
    "mode.services:Service.crash": "14980000465df0af",
    "mode.threads:QueueServiceThread": "219c18b1f4999078",
    "mode.worker:Worker.execute_from_commandline": "212e98f635d7a69b",
    "aiokafka.client:AIOKafkaClient._metadata_update": "06dc51ed3e0d38b8",
    "aiokafka.client:AIOKafkaClient.bootstrap": "198943b004e55849",
    "aiokafka.client:AIOKafkaClient.coordinator_lookup": "19cc69fb75f8d667",
    "aiokafka.client:AIOKafkaClient.send": "246b277687d7b687",
    "aiokafka.consumer.consumer:AIOKafkaConsumer.end_offsets": "f4b19078581881ba",
    "aiokafka.consumer.consumer:AIOKafkaConsumer.start": "2f1ba70443327538",
    "aiokafka.consumer.group_coordinator:CoordinatorGroupRebalance._send_sync_group_request": "7429ca078ddf9bb7",
    "aiokafka.consumer.group_coordinator:GroupCoordinator._do_heartbeat": "dc1d6632aaa68e96",
    "aiokafka.consumer.group_coordinator:GroupCoordinator._do_fetch_commit_offsets": "b0f3598132715552",
    "aiokafka.consumer.group_coordinator:GroupCoordinator._maybe_leave_group": "016cd88a16e6c4b5",
    "aiokafka.consumer.group_coordinator:GroupCoordinator._send_req": "fa4b12e914ce9fcf",
    "aiokafka.consumer.group_coordinator:GroupCoordinator.coordinator_dead": "ba1eda0254af8dfe",
    "aiokafka.consumer.group_coordinator:GroupCoordinator.ensure_coordinator_known": "4dfb9ccd877aba5d",
    "aiokafka.protocol.commit:OffsetFetchRequest": "09b9a30caf0accb4",
    "aiokafka.consumer.fetcher:Fetcher._get_actions_per_node": "1dab2cf937d165d0",
    "aiokafka.consumer.fetcher:Fetcher._proc_fetch_request": "59bf948fff47eed5",
    "aiokafka.consumer.fetcher:Fetcher._update_fetch_positions": "d7774d8241dc6a7e",
    "aiokafka.consumer.fetcher:Fetcher.fetched_records": "be4348896b9b66af",
    "aiokafka.consumer.fetcher:Fetcher.seek_to": "f0ba6aba6c22ef83",
    "aiokafka.consumer.fetcher:PartitionRecords": "94aa0da0dbec8d1b",
    "aiokafka.producer.message_accumulator:BatchBuilder": "8050802ca7514186",
    "aiokafka.producer.message_accumulator:MessageAccumulator.add_batch": "5ed1c5b1367ad854",
    "aiokafka.producer.producer:AIOKafkaProducer.send_batch": "bf42b0f0c5c0646d",
    "aiokafka.producer.producer:AIOKafkaProducer.send_offsets_to_transaction": "4b58002b44962a5c",
    "aiokafka.producer.sender:SendProduceReqHandler": "708c9da866caf440",
    "aiokafka.producer.sender:Sender._do_txn_commit": "8263eaebb7c30ea1",
    "aiokafka.producer.transaction_manager:TransactionManager": "d0932794d69a6780",
    "aiokafka.protocol.abstract:AbstractType": "987d9751c32eb5f4",
    "aiokafka.protocol.api:Request.build": "3a1c9951620bb46d",
    "aiokafka.record.default_records:_DefaultRecordBatchPy": "f63fbb5a8a247d54",
    "aiokafka.record.default_records:_DefaultRecordPy": "89405104e45ad01f",
    "aiokafka.record.memory_records:_MemoryRecordsPy": "795a0314fbca30af",
}


def source_hash(name: str) -> str:
    """Return the hash of a function's or class's source.

    Args:
        name: `module:Class.attribute`.
    """
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, ServiceTask):
        found = found.fun
    if isinstance(found, (classmethod, staticmethod)):
        found = found.__func__
    source = inspect.getsource(inspect.unwrap(found))
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def main() -> None:
    """Print the table as it would be for what is installed."""
    for name in PINS:
        print(f'    "{name}": "{source_hash(name)}",')  # noqa: T201 - a tool's output


if __name__ == "__main__":
    main()
