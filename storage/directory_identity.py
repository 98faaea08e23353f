"""The owner of each log directory: the cluster and broker that its `meta.properties` names."""

from storage.disk import Disk
from storage.errors import InconsistentDirectoryError
from storage.log_table import LogTable
from storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from wire.types import BrokerId


class DirectoryIdentity:
    """Reads, checks and writes the identity of every usable log directory.

    Attributes:
        formatted_at: the newest transaction of ZooKeeper when the youngest directory was first used, once written.
    """

    def __init__(self, table: LogTable, disk: Disk) -> None:
        self._table = table
        self._disk = disk
        self.formatted_at: int | None = None

    def read(self) -> dict[str, MetaProperties | None]:
        """Read the identity of each usable directory.

        Raises:
            InconsistentDirectoryError: one makes no sense.
        """
        found = {}
        for log_directory in self._table.online:
            try:
                found[log_directory.path] = read_meta_properties(self._disk, log_directory.path)
            except OSError as error:
                log_directory.fail(error, "reading its identity")
        return found

    def check(self, cluster_id: str | None, broker_id: BrokerId | None) -> None:
        """Refuse directories of another broker or another cluster.

        Args:
            cluster_id: the cluster's, or None to leave it unchecked.
            broker_id: this broker's, or None.

        Raises:
            InconsistentDirectoryError: one is foreign; the text says which, whose, and what to do.
        """
        for path, properties in self.read().items():
            if properties is None:
                continue
            if cluster_id is not None and properties.cluster_id not in (None, cluster_id):
                raise InconsistentDirectoryError(
                    f"{path} belongs to cluster {properties.cluster_id}, and this broker is of cluster {cluster_id}: "
                    "check zookeeper.connect and log.dirs"
                )
            if broker_id is not None and properties.broker_id not in (None, broker_id):
                raise InconsistentDirectoryError(
                    f"{path} belongs to broker {properties.broker_id}, and this is broker {broker_id}: "
                    "check broker.id and log.dirs"
                )

    def write(self, cluster_id: str, broker_id: BrokerId, zxid: int) -> None:
        """Write the owner, and the transaction of first use, into every usable directory that lacks them.

        Args:
            cluster_id: the cluster's.
            broker_id: this broker's.
            zxid: the newest transaction of ZooKeeper, read before this broker registers.

        Raises:
            StorageError: a disk failed.
        """
        for path, properties in self.read().items():
            others = properties.others if properties is not None else {}
            wanted = MetaProperties(cluster_id, broker_id, others)
            formatted = wanted.formatted_zxid
            if formatted is None:
                formatted, wanted = zxid, wanted.formatted_at(zxid)
            self.formatted_at = max(formatted, self.formatted_at or 0)
            if wanted != properties:
                try:
                    write_meta_properties(self._disk, path, wanted)
                except OSError as error:
                    raise self._table.directory(path).fail(error, "writing its identity") from error
