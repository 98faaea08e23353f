"""The broker settings that the controller reads, and the request versions that follow from them."""

import re
from dataclasses import dataclass
from typing import Final, Protocol

_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?(?:-IV\d+)?")
OLDEST_PROTOCOL: Final = (3, 0)
NEWEST_PROTOCOL: Final = (3, 9)
UNRELEASED_PROTOCOLS: Final = ("4.0-IV0", "4.0-IV1")
"""Unreleased versions that Kafka 3.9 accepts, above all in its own tests; with ZooKeeper they mean 3.9."""


class ControllerSettings(Protocol):
    """The broker settings that the controller reads; each is read when it is used, because it can change."""

    @property
    def auto_leader_rebalance_enable(self) -> bool:
        """Whether leaders move back to their preferred brokers automatically."""
        ...

    @property
    def leader_imbalance_check_interval_seconds(self) -> int:
        """How often the balance of leaders is checked, in seconds."""
        ...

    @property
    def leader_imbalance_per_broker_percentage(self) -> int:
        """The percentage of a broker's partitions that may be led elsewhere before its leaders move back."""
        ...

    @property
    def delete_topic_enable(self) -> bool:
        """Whether topics can be deleted."""
        ...

    @property
    def unclean_leader_election_enable(self) -> bool:
        """Whether an out-of-sync replica may lead if no other is left; topics can override it."""
        ...

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener on which brokers talk to each other."""
        ...

    @property
    def inter_broker_protocol_version(self) -> str:
        """What every broker of the cluster understands, ``3.0`` to ``3.9``."""
        ...


@dataclass(frozen=True, slots=True)
class RequestVersions:
    """The versions of the controller's requests; brokers do not negotiate them."""

    leader_and_isr: int
    update_metadata: int
    stop_replica: int

    @classmethod
    def for_protocol(cls, inter_broker_protocol_version: str) -> "RequestVersions":
        """Return the versions that belong to an ``inter.broker.protocol.version``.

        Raises:
            ValueError: the version is not one of 3.0 to 3.9.
        """
        match = _VERSION.fullmatch(inter_broker_protocol_version.strip())
        release = (int(match[1]), int(match[2])) if match else None
        if inter_broker_protocol_version.strip() in UNRELEASED_PROTOCOLS:
            release = NEWEST_PROTOCOL
        if release is None or not OLDEST_PROTOCOL <= release <= NEWEST_PROTOCOL:
            raise ValueError(
                f"inter.broker.protocol.version {inter_broker_protocol_version!r}: only 3.0 to 3.9 are served"
            )
        if release >= (3, 4):
            return cls(leader_and_isr=7, update_metadata=8, stop_replica=4)
        return cls(leader_and_isr=6 if release >= (3, 2) else 5, update_metadata=7, stop_replica=3)
