"""`/controller` and `/controller_epoch`: which broker is controller, and the counter that fences its writes."""

from dataclasses import dataclass
from typing import Final

from cluster.zookeeper.json_data import MalformedZnodeError, decode_json, encode_json, malformed_as
from wire.types import BrokerId, ControllerEpoch, WallMs


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """The content of `/controller`.

    Attributes:
        broker_id: The broker that is controller.
        kraft_controller_epoch: -1 except in a migration to KRaft, which we do not support: brokers stop at 0 or more.
    """

    broker_id: BrokerId
    kraft_controller_epoch: int = -1

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft controller has taken the cluster over."""
        return self.kraft_controller_epoch >= 0


class ControllerZnode:
    """`/controller`, ephemeral: `{"version":2,"brokerid":1,"timestamp":"...","kraftControllerEpoch":-1}`."""

    PATH: Final = "/controller"

    @staticmethod
    def encode(broker_id: BrokerId, now: WallMs) -> bytes:
        """Write the registration of a broker that became controller."""
        return encode_json(
            {"version": 2, "brokerid": broker_id, "timestamp": str(now), "kraftControllerEpoch": -1}
        )

    @staticmethod
    def decode(data: bytes) -> ControllerRegistration:
        """Read any version of it.

        Raises:
            MalformedZnodeError: it is not a controller registration.
        """
        value = decode_json(data, "/controller")
        with malformed_as("/controller", data):
            return ControllerRegistration(
                BrokerId(int(value["brokerid"])), int(value.get("kraftControllerEpoch", -1))
            )


class ControllerEpochZnode:
    """`/controller_epoch`: a number as text. Its *znode version* is what fences the controller's writes."""

    PATH: Final = "/controller_epoch"
    INITIAL: Final = ControllerEpoch(0)

    @staticmethod
    def encode(epoch: ControllerEpoch) -> bytes:
        """Write an epoch."""
        return str(epoch).encode()

    @staticmethod
    def decode(data: bytes) -> ControllerEpoch:
        """Read an epoch.

        Raises:
            MalformedZnodeError: it is not a number.
        """
        try:
            return ControllerEpoch(int(data))
        except ValueError as error:
            raise MalformedZnodeError("/controller_epoch is not a number", data) from error
