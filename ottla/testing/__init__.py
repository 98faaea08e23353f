"""What a test of a cluster needs: a cluster to start and harm, and a checker of what it promised."""

from ottla.testing.cluster import Cluster, ClusterError, ClusterView
from ottla.testing.history import Anomalies, History, HistoryViolationError, Mark

__all__ = ["Anomalies", "Cluster", "ClusterError", "ClusterView", "History", "HistoryViolationError", "Mark"]
