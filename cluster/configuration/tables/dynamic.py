"""Settings of a broker that exist in ZooKeeper only: no file may hold them."""

from typing import Final

TABLE: Final = """
leader.replication.throttled.rate | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How many bytes a second leaders send of the replicas that are throttled.
follower.replication.throttled.rate | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How many bytes a second followers copy of the replicas that are throttled.
replica.alter.log.dirs.io.max.bytes.per.second | long | 9223372036854775807 | medium | cluster-wide
    valid: 0..
    How many bytes a second are copied between the directories of a broker.
"""
