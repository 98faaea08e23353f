"""The ZooKeeper of a cluster on this machine: ours, or one that was given."""

from typing import TYPE_CHECKING

from ottla.commands.terminal.failure import CommandError

if TYPE_CHECKING:
    from ottla.commands.local.cluster_directory import ClusterDirectory
    from ottla.zookeeper_server import ZooKeeperServer


def start_zookeeper(directory: "ClusterDirectory", address: str) -> "ZooKeeperServer":
    """Start our ZooKeeper on the port that the cluster knows it by. It serves a little later.

    Raises:
        ZooKeeperStartError: it cannot be started; the text says why.
    """
    from ottla.zookeeper_server import ZooKeeperServer

    return ZooKeeperServer.launch(directory.zookeeper_path, int(address.rpartition(":")[2]))


def require_zookeeper(connect: str) -> None:
    """See that one of the servers of a ``zookeeper.connect`` serves.

    Raises:
        CommandError: none does.
    """
    from ottla.addresses import parse_addresses
    from ottla.zookeeper_server import serves_sessions

    try:
        addresses = parse_addresses(connect.partition("/")[0])
    except ValueError as error:
        raise CommandError(f"--zookeeper: {error}") from None
    if not any(serves_sessions(host, port) for host, port in addresses):
        raise CommandError(f"no ZooKeeper serves at {connect}")
