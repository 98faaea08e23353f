"""librdkafka without Python in the loop: the C library of confluent-kafka's wheel, called through ctypes.

Messages are handed over thousands at a time from arrays that are built once, and read back in batches that are only
counted, so that the client costs no more than C does, and the broker is what is measured.
"""

import ctypes
import importlib.util
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path

PRODUCER, CONSUMER = 0, 1
EVENT_DR = 0x1
COPY, PER_MESSAGE_PARTITION = 0x2, 0x8
UNASSIGNED = -1
OFFSET_BEGINNING = -2
ERR_PARTITION_EOF = -191


class Message(ctypes.Structure):
    """``rd_kafka_message_t``."""

    _fields_ = (
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


def _load() -> ctypes.CDLL:
    spec = importlib.util.find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    found = sorted((Path(spec.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*"))
    # The wheel's other libraries are found because importing the extension module has loaded them.
    import confluent_kafka  # noqa: F401

    library = ctypes.CDLL(str(found[0]))
    for name, result, arguments in (
        ("conf_new", c_void_p, ()),
        ("conf_set", c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
        ("conf_set_events", None, (c_void_p, c_int)),
        ("new", c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
        ("topic_new", c_void_p, (c_void_p, c_char_p, c_void_p)),
        ("queue_new", c_void_p, (c_void_p,)),
        ("queue_get_main", c_void_p, (c_void_p,)),
        ("queue_poll", c_void_p, (c_void_p, c_int)),
        ("queue_destroy", None, (c_void_p,)),
        ("event_message_count", c_size_t, (c_void_p,)),
        ("event_destroy", None, (c_void_p,)),
        ("produce_batch", c_int, (c_void_p, c_int32, c_int, POINTER(Message), c_int)),
        ("outq_len", c_int, (c_void_p,)),
        ("flush", c_int, (c_void_p, c_int)),
        ("consume_start_queue", c_int, (c_void_p, c_int32, c_int64, c_void_p)),
        ("consume_stop", c_int, (c_void_p, c_int32)),
        ("consume_batch_queue", c_ssize_t, (c_void_p, c_int, POINTER(POINTER(Message)), c_size_t)),
        ("message_destroy", None, (c_void_p,)),
        ("topic_destroy", None, (c_void_p,)),
        ("destroy", None, (c_void_p,)),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype = result
        function.argtypes = arguments
    return library


LIB = _load()


def _client(kind: int, settings: Mapping[str, str], *, events: int = 0) -> int:
    conf = LIB.rd_kafka_conf_new()
    reason = ctypes.create_string_buffer(512)
    for key, value in settings.items():
        if LIB.rd_kafka_conf_set(conf, key.encode(), value.encode(), reason, len(reason)):
            raise ValueError(reason.value.decode())
    if events:
        LIB.rd_kafka_conf_set_events(conf, events)
    client: int | None = LIB.rd_kafka_new(kind, conf, reason, len(reason))
    if client is None:
        raise ValueError(reason.value.decode())
    return client


class Producer:
    """Sends prepared batches as fast as the library takes them."""

    def __init__(self, bootstrap: str, topic: str, **settings: str) -> None:
        fixed = {
            "bootstrap.servers": bootstrap,
            "delivery.report.only.error": "true",
            "queue.buffering.max.messages": "1000000",
            "queue.buffering.max.kbytes": "1048576",
        }
        self._client = _client(PRODUCER, fixed | settings, events=EVENT_DR)
        self._topic = LIB.rd_kafka_topic_new(self._client, topic.encode(), None)
        self._events = LIB.rd_kafka_queue_get_main(self._client)
        self.failed = 0

    def send(self, batch: "Batch") -> None:
        """Enqueue a whole batch, waiting where the queue is full."""
        done = 0
        while done < batch.count:
            here = ctypes.cast(byref(batch.messages, done * ctypes.sizeof(Message)), POINTER(Message))
            done += LIB.rd_kafka_produce_batch(
                self._topic, UNASSIGNED, COPY | PER_MESSAGE_PARTITION, here, batch.count - done
            )
            if done < batch.count:
                self._poll(5)

    def flush(self, timeout_s: float = 120) -> None:
        """Wait until everything is acknowledged.

        Raises:
            RuntimeError: something failed, or was not acknowledged in time.
        """
        for _turn in range(int(timeout_s * 10)):
            LIB.rd_kafka_flush(self._client, 0)
            self._poll(100 if LIB.rd_kafka_outq_len(self._client) else 0)
            if not LIB.rd_kafka_outq_len(self._client):
                break
        if self.failed or LIB.rd_kafka_outq_len(self._client):
            left = LIB.rd_kafka_outq_len(self._client)
            raise RuntimeError(f"{self.failed} records failed, {left} were not acknowledged")

    def close(self) -> None:
        """Free the client."""
        LIB.rd_kafka_queue_destroy(self._events)
        LIB.rd_kafka_topic_destroy(self._topic)
        LIB.rd_kafka_destroy(self._client)

    def _poll(self, timeout_ms: int) -> None:
        event = LIB.rd_kafka_queue_poll(self._events, timeout_ms)
        while event:
            self.failed += LIB.rd_kafka_event_message_count(event)
            LIB.rd_kafka_event_destroy(event)
            event = LIB.rd_kafka_queue_poll(self._events, 0)


class Batch:
    """Messages over one buffer, round-robin over the partitions; built once, sent many times."""

    def __init__(self, payloads: Sequence[bytes], partitions: int) -> None:
        self.count = len(payloads)
        self.messages = (Message * self.count)()
        self._buffer = ctypes.create_string_buffer(b"".join(payloads))
        at = ctypes.addressof(self._buffer)
        for index, payload in enumerate(payloads):
            message = self.messages[index]
            message.partition = index % partitions
            message.payload = at
            message.len = len(payload)
            at += len(payload)


class Consumer:
    """Reads all partitions of a topic from the beginning, without a group, and counts."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: str) -> None:
        fixed = {"bootstrap.servers": bootstrap, "enable.partition.eof": "false"}
        self._client = _client(CONSUMER, fixed | settings)
        self._topic = LIB.rd_kafka_topic_new(self._client, topic.encode(), None)
        self._queue = LIB.rd_kafka_queue_new(self._client)
        self._partitions = partitions
        self._messages = (POINTER(Message) * 10_000)()
        for partition in range(partitions):
            LIB.rd_kafka_consume_start_queue(self._topic, partition, OFFSET_BEGINNING, self._queue)

    def read(self, count: int, timeout_ms: int = 30_000) -> int:
        """Read until ``count`` messages have come; return their size in bytes.

        Raises:
            RuntimeError: nothing came in time, or a message carried an error.
        """
        seen = size = 0
        messages = self._messages
        while seen < count:
            got = LIB.rd_kafka_consume_batch_queue(self._queue, timeout_ms, messages, len(messages))
            if got <= 0:
                raise RuntimeError(f"{count - seen} of {count} messages did not come")
            last = messages[got - 1].contents
            if last.err:
                raise RuntimeError(f"a message carries the error {last.err}")
            size += last.len * got
            for index in range(got):
                LIB.rd_kafka_message_destroy(messages[index])
            seen += got
        return size

    def close(self) -> None:
        """Stop reading and free the client."""
        for partition in range(self._partitions):
            LIB.rd_kafka_consume_stop(self._topic, partition)
        LIB.rd_kafka_queue_destroy(self._queue)
        LIB.rd_kafka_topic_destroy(self._topic)
        LIB.rd_kafka_destroy(self._client)
