"""The Kafka client, for trio and asyncio: producer, readers, groups and transactions, for Ottla and Apache Kafka.

    async with connect("127.0.0.1:9092") as kafka, kafka.producer() as out:
        place = await out.send("orders", b"17 apples", key=b"17")

One object owns connections, metadata and tasks, for the length of its block; nothing runs outside of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ottla.client.codecs import Codec, Topic, float64, int32, int64, json_codec, raw, text
from ottla.client.errors import (
    AuthenticationError,
    BootstrapError,
    BrokerUnreachable,
    ClientError,
    ClosedClient,
    ClusterChanged,
    CommitFailed,
    CorruptData,
    DecodeError,
    DeliveryError,
    DeliveryErrors,
    FencedInstance,
    GroupMismatch,
    InvalidRecord,
    NoLeader,
    NoRoom,
    NotAuthorized,
    OffsetLost,
    ProducerFenced,
    RecordTooLarge,
    SchemaRegistryError,
    TransactionAborted,
    TransactionUnknown,
    UnknownTopic,
    UnsupportedByBroker,
)
from ottla.client.kafka import Kafka, connect
from ottla.client.positions import EARLIEST, LATEST, Tail
from ottla.client.runtime import in_thread
from ottla.client.settings import ConnectionSettings

if TYPE_CHECKING:
    from ottla.client.authentication import oauth_bearer, plain, scram
    from ottla.client.delivery import BatchDelivery, Delivery, Span
    from ottla.client.group import Group
    from ottla.client.group_partitions import Partition
    from ottla.client.group_settings import EXPLICIT
    from ottla.client.interceptors import OutgoingRecord
    from ottla.client.producer import Producer
    from ottla.client.producer_batch import Place
    from ottla.client.reader import Reader
    from ottla.client.reader_options import READ_COMMITTED, READ_UNCOMMITTED
    from ottla.client.record_batch import Batch, Record
    from ottla.client.transactional_producer import Transaction, TransactionalProducer

_IMPORTED_ON_USE: Final = {
    "authentication": ("oauth_bearer", "plain", "scram"),
    "delivery": ("BatchDelivery", "Delivery", "Span"),
    "group": ("Group",),
    "group_partitions": ("Partition",),
    "group_settings": ("EXPLICIT",),
    "interceptors": ("OutgoingRecord",),
    "producer": ("Producer",),
    "producer_batch": ("Place",),
    "reader": ("Reader",),
    "reader_options": ("READ_COMMITTED", "READ_UNCOMMITTED"),
    "record_batch": ("Batch", "Record"),
    "transactional_producer": ("Transaction", "TransactionalProducer"),
}
"""Names imported on first use, by module: most programs need few of them."""


def __getattr__(name: str) -> object:
    """Import a name on its first use (PEP 562)."""
    for module, names in _IMPORTED_ON_USE.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "EARLIEST",
    "EXPLICIT",
    "LATEST",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "AuthenticationError",
    "Batch",
    "BatchDelivery",
    "BootstrapError",
    "BrokerUnreachable",
    "ClientError",
    "ClosedClient",
    "ClusterChanged",
    "Codec",
    "CommitFailed",
    "ConnectionSettings",
    "CorruptData",
    "DecodeError",
    "Delivery",
    "DeliveryError",
    "DeliveryErrors",
    "FencedInstance",
    "Group",
    "GroupMismatch",
    "InvalidRecord",
    "Kafka",
    "NoLeader",
    "NoRoom",
    "NotAuthorized",
    "OffsetLost",
    "OutgoingRecord",
    "Partition",
    "Place",
    "Producer",
    "ProducerFenced",
    "Reader",
    "Record",
    "RecordTooLarge",
    "SchemaRegistryError",
    "Span",
    "Tail",
    "Topic",
    "Transaction",
    "TransactionAborted",
    "TransactionUnknown",
    "TransactionalProducer",
    "UnknownTopic",
    "UnsupportedByBroker",
    "connect",
    "float64",
    "in_thread",
    "int32",
    "int64",
    "json_codec",
    "oauth_bearer",
    "plain",
    "raw",
    "scram",
    "text",
]
