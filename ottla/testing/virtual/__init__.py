"""A user's own program with a whole cluster on one virtual clock: `world` runs it, `cluster` is its argument."""

from ottla.testing.virtual.cluster import VirtualCluster
from ottla.testing.virtual.world import run_simulated

__all__ = ["VirtualCluster", "run_simulated"]
