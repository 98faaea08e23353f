"""Znodes that a cluster has once: its id, features and producer ids; and the offsets of old consumers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cluster.zookeeper.json_data import MalformedZnodeError, decode_json, encode_json, malformed_as
from wire.types import BrokerId, Offset, ProducerId


class ClusterIdZnode:
    """`/cluster/id`: `{"version":"1","id":"<22 characters>"}`; the version is text, as Kafka has it."""

    PATH: Final = "/cluster/id"

    @staticmethod
    def encode(cluster_id: str) -> bytes:
        """Write a cluster id."""
        return encode_json({"version": "1", "id": cluster_id})

    @staticmethod
    def decode(data: bytes) -> str:
        """Read a cluster id.

        Raises:
            MalformedZnodeError: it holds no cluster id.
        """
        value = decode_json(data, "/cluster/id")
        with malformed_as("/cluster/id", data):
            return str(value["id"])


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """Producer ids that one broker may assign: ``first`` to ``last``, both included."""

    broker_id: BrokerId
    first: ProducerId
    last: ProducerId

    @property
    def size(self) -> int:
        """How many ids it has."""
        return self.last - self.first + 1


class ProducerIdBlockZnode:
    """`/latest_producer_id_block`: the block taken last; the node is empty until one is taken."""

    PATH: Final = "/latest_producer_id_block"
    BLOCK_SIZE: Final = 1000
    LAST_ID: Final = (1 << 63) - 1

    @staticmethod
    def encode(block: ProducerIdBlock) -> bytes:
        """Write a block; its bounds are text, as Kafka has them."""
        return encode_json(
            {
                "version": 1,
                "broker": block.broker_id,
                "block_start": str(block.first),
                "block_end": str(block.last),
            }
        )

    @staticmethod
    def decode(data: bytes) -> ProducerIdBlock | None:
        """Read the block taken last.

        Raises:
            MalformedZnodeError: it is not a block.
        """
        if not data:
            return None
        value = decode_json(data, ProducerIdBlockZnode.PATH)
        with malformed_as(ProducerIdBlockZnode.PATH, data):
            return ProducerIdBlock(
                BrokerId(int(value["broker"])),
                ProducerId(int(value["block_start"])),
                ProducerId(int(value["block_end"])),
            )


class FeatureZnode:
    """`/feature`: `{"features":{},"version":2,"status":1}`; status 1 says that feature versioning is on."""

    PATH: Final = "/feature"
    ENABLED: Final = 1

    @staticmethod
    def encode(features: Mapping[str, int]) -> bytes:
        """Write the finalized features: name to version level."""
        return encode_json(
            {
                "features": {name: {"max_version_level": level} for name, level in features.items()},
                "version": 2,
                "status": FeatureZnode.ENABLED,
            }
        )

    @staticmethod
    def decode(data: bytes) -> dict[str, int]:
        """Read the finalized features, of version 1 or 2; none if the status says that they are off.

        Raises:
            MalformedZnodeError: the data is not a set of features.
        """
        value = decode_json(data, FeatureZnode.PATH)
        with malformed_as(FeatureZnode.PATH, data):
            if not 1 <= int(value["version"]) <= 2:
                raise MalformedZnodeError("/feature has an unknown version", data)
            if int(value["status"]) != FeatureZnode.ENABLED:
                return {}
            return {
                name: int(levels["max_version_level"]) for name, levels in (value["features"] or {}).items()
            }


class MigrationZnode:
    """`/migration`: it exists if a migration to KRaft was begun, which Ottla does not support."""

    PATH: Final = "/migration"


class ConsumersZnode:
    """`/consumers/<group>/offsets/<topic>/<partition>`: where OffsetCommit 0 and OffsetFetch 0 keep offsets."""

    PATH: Final = "/consumers"

    @staticmethod
    def offset_path(group: str, topic: str, partition: int) -> str:
        """Return the path of one committed offset."""
        return f"{ConsumersZnode.PATH}/{group}/offsets/{topic}/{partition}"

    @staticmethod
    def encode_offset(offset: Offset) -> bytes:
        """Write an offset."""
        return str(offset).encode()

    @staticmethod
    def decode_offset(data: bytes) -> Offset | None:
        """Read an offset, ``None`` where the node is empty.

        Raises:
            MalformedZnodeError: it is not a number.
        """
        if not data:
            return None
        try:
            return Offset(int(data))
        except ValueError as error:
            raise MalformedZnodeError("a consumer's offset is not a number", data) from error
