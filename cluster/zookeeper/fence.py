"""The controller's fence: each write checks the `/controller_epoch` version at which the controller was elected."""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.zookeeper.client import (
    CheckVersion,
    ConnectionLossError,
    MultiResult,
    Operation,
    OperationResult,
    ZooKeeper,
    ZooKeeperError,
)
from cluster.zookeeper.znodes import ControllerEpochZnode
from wire.types import ControllerEpoch, ZkVersion


class ControllerMovedError(Exception):
    """Another broker has been elected controller: resign."""


@dataclass(frozen=True, slots=True)
class ControllerFence:
    """What an election returns, and what every write of that controller checks.

    Attributes:
        epoch: The controller epoch.
        epoch_version: The version of `/controller_epoch` as this controller wrote it.
    """

    epoch: ControllerEpoch
    epoch_version: ZkVersion

    async def write(self, zookeeper: ZooKeeper, operations: Sequence[Operation]) -> MultiResult:
        """Do all operations as one transaction behind the fence.

        Returns:
            The results of the operations, without that of the fence.

        Raises:
            ControllerMovedError: another controller was elected; nothing was written.
            ConnectionLossError: whether it was written is unknown.
        """
        return self._unwrap(await zookeeper.multi([self._check(), *operations]))

    async def write_many(
        self, zookeeper: ZooKeeper, transactions: Sequence[Sequence[Operation]]
    ) -> list[MultiResult | ConnectionLossError]:
        """Do many transactions in overlapping requests, each behind the fence.

        Raises:
            ControllerMovedError: another controller was elected; some may have been written before.
        """
        check = self._check()
        results = await zookeeper.multi_many([[check, *operations] for operations in transactions])
        return [
            result if isinstance(result, ConnectionLossError) else self._unwrap(result) for result in results
        ]

    def _check(self) -> CheckVersion:
        return CheckVersion(ControllerEpochZnode.PATH, self.epoch_version)

    def _unwrap(self, result: MultiResult) -> MultiResult:
        failure = result.failure
        if failure is not None and failure[0] == 0:
            raise ControllerMovedError(f"controller epoch {self.epoch} is over") from failure[1]
        return MultiResult(result.results[1:])


def result_error(result: OperationResult) -> ZooKeeperError | None:
    """Return an operation's error, ``None`` if it was done."""
    return result if isinstance(result, ZooKeeperError) else None
