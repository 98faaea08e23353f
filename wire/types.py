"""Numbers that must not be mixed up, each with a type of its own.

A leader epoch is never a bare ``int`` in a signature; wall time and monotonic time cannot be confused.
"""

import base64
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
BrokerEpoch = NewType("BrokerEpoch", int)
"""The czxid of a broker's registration znode: it tells one registration of a broker from the next."""
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
ZkVersion = NewType("ZkVersion", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
Generation = NewType("Generation", int)
WallMs = NewType("WallMs", int)
"""Milliseconds since 1970 on the wall clock: what timestamps in records are. It may jump."""
MonotonicSeconds = NewType("MonotonicSeconds", float)
"""Seconds on a clock that only goes forward, with an arbitrary origin: what time-outs are measured on."""
TopicId = NewType("TopicId", bytes)
"""A topic's identity across deletion and re-creation (KIP-516): the 16 bytes of a UUID."""

NO_BROKER: Final = BrokerId(-1)
NO_LEADER: Final = BrokerId(-1)
LEADER_DURING_DELETE: Final = BrokerId(-2)
NO_BROKER_EPOCH: Final = BrokerEpoch(-1)
NO_OFFSET: Final = Offset(-1)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
EPOCH_DURING_DELETE: Final = LeaderEpoch(-2)
NO_CONTROLLER_EPOCH: Final = ControllerEpoch(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_TIMESTAMP: Final = WallMs(-1)
NO_TOPIC_ID: Final = TopicId(bytes(16))


class TopicPartition(NamedTuple):
    """One partition of one topic, by name; written ``topic-partition`` as Kafka does."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: TopicId) -> str:
    """Return a topic id as Kafka prints it: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(topic_id).decode("ascii").rstrip("=")


def parse_topic_id(text: str) -> TopicId:
    """Read a topic id from Kafka's text form.

    Raises:
        ValueError: the text is not 16 bytes of URL-safe base64.
    """
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"a topic id has 16 bytes, {text!r} has {len(raw)}")
    return TopicId(raw)
