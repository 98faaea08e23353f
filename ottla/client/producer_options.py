"""The options of a producer, with defaults, and the producer that is made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ottla.client.accumulator import Accumulator, AccumulatorSettings
from ottla.client.context import ClientContext
from ottla.client.interceptors import OnAcknowledged, OnSend
from ottla.client.memory_budget import MemoryBudget
from ottla.client.partitioners import PARTITIONERS, KeyHash
from ottla.client.producer import DEFAULT_ROOM, Producer
from ottla.client.sender import Sender, SenderSettings
from ottla.client.transaction_requests import TransactionRequests
from ottla.client.transactional_producer import TransactionalProducer
from ottla.client.transactions import TransactionMachine
from wire.records.compression import LEVELS, Compression

Acks = Literal["all", 0, 1, -1]


class ProducerOptions(TypedDict, total=False):
    """The arguments of `Kafka.producer`; times in seconds, sizes in bytes.

    Attributes:
        acks: ``"all"`` (the default): acknowledged by every in-sync replica; 1: by the leader; 0: not at all.
        idempotent: No duplicates by retries; default: with acks=all.
        linger: How long a record waits for others to share its batch (0.005; Java has 0).
        batch_size: The most bytes of a batch, before compression (65536; Java has 16384).
        room: The most bytes accepted and not acknowledged (32 MiB); `post` waits beyond it.
        max_request_size: The most bytes of a request and of a record (1 MiB).
        compression: none, gzip, snappy, lz4 or zstd.
        compression_level: The codec's level, None for Kafka's default.
        partitioner: The hash of keys: ``murmur2`` as Java, ``crc32`` as librdkafka, or a function.
        delivery_timeout: How long after acceptance a record may be retried (120).
        topic_timeout: How long a topic may be unknown: it may be about to be created (30).
        on_failure: What leaving the block on an exception does with unsent records ("flush" or "discard").
        on_send: See each record before it is encoded, and may change or drop it.
        on_acknowledged: See the outcome of each batch.
    """

    acks: Acks
    idempotent: bool | None
    linger: float
    batch_size: int
    room: int
    max_request_size: int
    compression: str
    compression_level: int | None
    partitioner: str | KeyHash
    delivery_timeout: float
    topic_timeout: float
    on_failure: Literal["flush", "discard"]
    on_send: Sequence[OnSend]
    on_acknowledged: Sequence[OnAcknowledged]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """`ProducerOptions` with their defaults."""

    acks: Acks = "all"
    idempotent: bool | None = None
    linger: float = 0.005
    batch_size: int = 65_536
    room: int = DEFAULT_ROOM
    max_request_size: int = 1_048_576
    compression: str = "none"
    compression_level: int | None = None
    partitioner: str | KeyHash = "murmur2"
    delivery_timeout: float = 120.0
    topic_timeout: float = 30.0
    on_failure: Literal["flush", "discard"] = "flush"
    on_send: Sequence[OnSend] = ()
    on_acknowledged: Sequence[OnAcknowledged] = ()

    def check(self, request_timeout: float) -> None:
        """Check that the values fit together.

        Raises:
            ValueError: They do not; the text says which.
        """
        if self.acks not in ("all", -1, 0, 1):
            raise ValueError(f"acks is 'all', 1 or 0, not {self.acks!r}")
        if self.idempotent and self.acks not in ("all", -1):
            raise ValueError("an idempotent producer needs acks='all'")
        codec = Compression.from_kafka_name(self.compression)
        if self.compression_level is not None and self.compression_level not in LEVELS.get(codec, range(0)):
            raise ValueError(f"{self.compression} has no level {self.compression_level}")
        if self.delivery_timeout < self.linger + request_timeout:
            raise ValueError(
                f"delivery_timeout ({self.delivery_timeout:g} s) is less than linger and request_timeout together "
                f"({self.linger + request_timeout:g} s)"
            )
        if isinstance(self.partitioner, str) and self.partitioner not in PARTITIONERS:
            raise ValueError(f"no partitioner {self.partitioner!r}: there are {', '.join(PARTITIONERS)}")


def make_producer(context: ClientContext, **options: Any) -> Producer:
    """Make a producer without transactions.

    Raises:
        TypeError: An option is unknown.
        ValueError: The values do not fit together.
    """
    return _make(context, ProducerSettings(**options), None)[0]


def make_transactional_producer(
    context: ClientContext, transactional_id: str, transaction_timeout: float, **options: Any
) -> TransactionalProducer:
    """Make a transactional producer; raises as `make_producer`."""
    settings = ProducerSettings(**options)
    if settings.acks not in ("all", -1) or settings.idempotent is False:
        raise ValueError("a transactional producer is idempotent, with acks='all'")
    machine = TransactionMachine(transactional_id)
    producer, accumulator, sender = _make(context, settings, machine)
    requests = TransactionRequests(context, machine, transaction_timeout)
    return TransactionalProducer(context, producer, accumulator, sender, machine, requests)


def _make(
    context: ClientContext, settings: ProducerSettings, machine: TransactionMachine | None
) -> tuple[Producer, Accumulator, Sender]:
    request_timeout = context.settings.request_timeout
    settings.check(request_timeout)
    acks = -1 if settings.acks == "all" else settings.acks
    budget = MemoryBudget(settings.room)
    accumulator = Accumulator(
        AccumulatorSettings(
            linger=settings.linger,
            batch_size=settings.batch_size,
            max_request_size=settings.max_request_size,
            delivery_timeout=settings.delivery_timeout,
            idempotent=acks == -1 if settings.idempotent is None else settings.idempotent,
            transactional=machine is not None,
        ),
        budget,
        context.retry_backoff,
    )
    codec = Compression.from_kafka_name(settings.compression)
    sender_settings = SenderSettings(acks, request_timeout, codec, settings.compression_level)
    sender = Sender(context, accumulator, sender_settings, machine)
    chosen = settings.partitioner
    producer = Producer(
        context,
        accumulator,
        budget,
        sender,
        PARTITIONERS[chosen]() if isinstance(chosen, str) else chosen,
        max_request_size=settings.max_request_size,
        batch_size=settings.batch_size,
        topic_timeout=settings.topic_timeout,
        discard_on_failure=settings.on_failure == "discard",
        on_send=settings.on_send,
        on_acknowledged=settings.on_acknowledged,
    )
    return producer, accumulator, sender
