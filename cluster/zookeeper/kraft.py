"""The error of a cluster that a KRaft controller has taken over from ZooKeeper."""


class KraftControllerError(Exception):
    """A KRaft controller has taken the cluster over. Brokers that coordinate through ZooKeeper have to stop.

    Migrating to KRaft is not supported, and going on would harm the cluster.
    """
