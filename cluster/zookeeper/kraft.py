"""The end of ZooKeeper's part: a KRaft controller that takes the cluster over."""


class KraftControllerError(Exception):
    """A KRaft controller has taken the cluster over. Brokers that coordinate through ZooKeeper have to stop.

    Migrating to KRaft is not supported, and going on would harm the cluster.
    """
