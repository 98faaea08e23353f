"""Every watch of the controller, turned into an event that says "look again".

The callbacks are methods, always the same: setting a watch twice leaves one. The reason why a watch fired is ignored: a
dropped watch has to be set again just like one that saw a change.
"""

from collections.abc import Callable

from cluster.controller import events
from cluster.controller.events import ControllerEvent
from cluster.zookeeper.client import WatchEvent
from cluster.zookeeper.znodes import BrokerIdsZnode, TopicsZnode
from wire.types import BrokerId


class Watches:
    """Callbacks for ZooKeeper, one for each thing that is watched."""

    def __init__(self, put: Callable[[ControllerEvent], None]) -> None:
        """Make callbacks that put events.

        Args:
            put: Takes the events.
        """
        self._put = put

    def controller(self, _: WatchEvent) -> None:
        """``/controller``."""
        self._put(events.ControllerChanged())

    def brokers(self, _: WatchEvent) -> None:
        """The children of ``/brokers/ids``."""
        self._put(events.BrokersChanged())

    def broker(self, event: WatchEvent) -> None:
        """The data of one broker's registration."""
        name = event.path.removeprefix(f"{BrokerIdsZnode.PATH}/")
        self._put(events.BrokerModified(BrokerId(int(name))))

    def topics(self, _: WatchEvent) -> None:
        """The children of ``/brokers/topics``."""
        self._put(events.TopicsChanged())

    def topic(self, event: WatchEvent) -> None:
        """The data of one topic's assignment."""
        self._put(events.PartitionsChanged(event.path.removeprefix(f"{TopicsZnode.PATH}/")))

    def topic_deletions(self, _: WatchEvent) -> None:
        """The children of ``/admin/delete_topics``."""
        self._put(events.TopicDeletionsChanged())

    def isr_changes(self, _: WatchEvent) -> None:
        """The children of ``/isr_change_notification``."""
        self._put(events.IsrChangesNotified())

    def log_dir_events(self, _: WatchEvent) -> None:
        """The children of ``/log_dir_event_notification``."""
        self._put(events.LogDirectoryFailed())

    def reassignments(self, _: WatchEvent) -> None:
        """``/admin/reassign_partitions``."""
        self._put(events.ReassignmentsRequested())

    def preferred_election(self, _: WatchEvent) -> None:
        """``/admin/preferred_replica_election``."""
        self._put(events.PreferredElectionRequested())
