"""A broker that has one partition of ``__consumer_offsets`` on a real log, with its loader."""

import trio

from cluster.coordinator.group_pieces import GROUPS
from cluster.coordinator.group_takeover import GroupTakeover
from cluster.coordinator.offsets_log import OffsetsLog
from cluster.coordinator.partition_loader import PartitionLoader
from storage.log import AppendOrigin
from tests.unit.coordinator.in_memory import NOON, PARTITION, OneLogReplicas, Shell, producer
from wire.internal_topics import CONSUMER_OFFSETS
from wire.records.end_transaction import build_end_transaction_marker
from wire.types import LeaderEpoch, WallMs


class Broker:
    """A coordinator on one real log, with its loader."""

    def __init__(self, replicas: OneLogReplicas, nursery: trio.Nursery, **settings: int) -> None:
        self.replicas = replicas
        self.reads = 0
        self.shell = Shell(OffsetsLog(replicas), **settings)
        self.loader = PartitionLoader(
            CONSUMER_OFFSETS,
            replicas,
            self.shell.hosted.led,
            GroupTakeover(self.shell.coordinator),
            GROUPS,
            self.shell.coordinator.clock,
            nursery,
            1024,
            self._offload,
        )
        nursery.start_soon(self.shell.timer.run)
        nursery.start_soon(self.loader.follow)

    async def _offload(self, read):
        self.reads += 1
        await trio.lowlevel.checkpoint()
        return read()

    def lead(self, epoch: int) -> None:
        self.replicas.is_leader = True
        self.replicas.epoch = LeaderEpoch(epoch)
        self.loader.leadership_changed([(PARTITION, LeaderEpoch(epoch))], [])

    def follow(self, epoch: int) -> None:
        self.replicas.is_leader = False
        self.loader.leadership_changed([], [(PARTITION, LeaderEpoch(epoch))])

    async def led(self, epoch: int) -> None:
        self.lead(epoch)
        await trio.testing.wait_all_tasks_blocked()
        assert not self.shell.hosted.led.get(0).is_loading

    def append(self, batch: bytearray, origin: AppendOrigin = AppendOrigin.COORDINATOR) -> None:
        log = self.replicas.log
        log.append_as_leader(batch, self.replicas.epoch, WallMs(NOON), origin=origin)
        log.advance_high_watermark(log.log_end_offset)

    def end_transaction(self, *, committed: bool) -> None:
        writer = producer()
        marker = build_end_transaction_marker(
            committed=committed,
            coordinator_epoch=0,
            producer_id=writer.producer_id,
            producer_epoch=writer.producer_epoch,
            timestamp=WallMs(NOON),
        )
        self.append(marker)


def another(broker: Broker, nursery: trio.Nursery, **settings: int) -> Broker:
    """Return the same broker after a restart, with only what is on disk."""
    return Broker(broker.replicas.reopened(), nursery, **settings)
