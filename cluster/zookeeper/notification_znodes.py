"""The sequential nodes by which brokers notify each other of changes: ISRs, disks, configurations."""

from collections.abc import Iterable
from typing import Final

from cluster.zookeeper.admin_znodes import decode_partitions, encode_partitions
from cluster.zookeeper.json_data import MalformedZnodeError, decode_json, encode_json, malformed_as
from wire.types import BrokerId, TopicPartition


class IsrChangeZnode:
    """`/isr_change_notification/isr_change_<seq>`: leaders tell the controller whose ISR they wrote."""

    PARENT: Final = "/isr_change_notification"
    PREFIX: Final = "/isr_change_notification/isr_change_"

    @staticmethod
    def path(name: str) -> str:
        """Return the path of a notification from its name as a child."""
        return f"{IsrChangeZnode.PARENT}/{name}"

    @staticmethod
    def encode(partitions: Iterable[TopicPartition]) -> bytes:
        """Write the partitions whose ISR changed."""
        return encode_partitions(partitions)

    @staticmethod
    def decode(data: bytes) -> frozenset[TopicPartition]:
        """Read the partitions.

        Raises:
            MalformedZnodeError: the data is not a list of partitions.
        """
        return decode_partitions(data, "an ISR change notification")


class LogDirEventZnode:
    """`/log_dir_event_notification/log_dir_event_<seq>`: a broker reports a failed disk to the controller."""

    PARENT: Final = "/log_dir_event_notification"
    PREFIX: Final = "/log_dir_event_notification/log_dir_event_"

    @staticmethod
    def path(name: str) -> str:
        """Return the path of a notification from its name as a child."""
        return f"{LogDirEventZnode.PARENT}/{name}"

    @staticmethod
    def encode(broker_id: BrokerId) -> bytes:
        """Write that a log directory of this broker failed (event 1, the only one there is)."""
        return encode_json({"version": 1, "broker": broker_id, "event": 1})

    @staticmethod
    def decode(data: bytes) -> BrokerId:
        """Read whose log directory failed.

        Raises:
            MalformedZnodeError: it is not such an event.
        """
        value = decode_json(data, "a log directory event")
        with malformed_as("a log directory event", data):
            return BrokerId(int(value["broker"]))


class ConfigChangeZnode:
    """`/config/changes/config_change_<seq>`: every broker reads the named configuration."""

    PARENT: Final = "/config/changes"
    PREFIX: Final = "/config/changes/config_change_"

    @staticmethod
    def path(name: str) -> str:
        """Return the path of a notification from its name as a child."""
        return f"{ConfigChangeZnode.PARENT}/{name}"

    @staticmethod
    def encode(entity_path: str) -> bytes:
        """Write which configuration changed: `topics/<t>`, `brokers/<id>`, `users/<u>/clients/<c>`, ..."""
        return encode_json({"version": 2, "entity_path": entity_path})

    @staticmethod
    def decode(data: bytes) -> str:
        """Read which configuration changed, as an entity path, from version 1 as well.

        Raises:
            MalformedZnodeError: it is not such a notification.
        """
        what = "a configuration change notification"
        value = decode_json(data, what)
        with malformed_as(what, data):
            version = int(value["version"])
            if version == 1:
                return f"{value['entity_type']}/{value['entity_name']}"
            if version == 2:
                return str(value["entity_path"])
            raise MalformedZnodeError(f"{what} has version {version}", data)
