"""UpdateMetadata requests that wait for a slow broker, merged into one request."""

from wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from wire.types import TopicId


class MergedMetadata:
    """The last state of each partition, and the last list of brokers: no larger than the cluster."""

    def __init__(self, message: UpdateMetadataRequest) -> None:
        self._latest = message
        self._topics: dict[str, tuple[TopicId, dict[int, UpdateMetadataPartitionState]]] = {}
        self.add(message)

    def add(self, message: UpdateMetadataRequest) -> None:
        """Merge a later request into this one."""
        self._latest = message
        for topic in message.topic_states:
            topic_id, states = self._topics.get(topic.topic_name, (topic.topic_id, {}))
            if topic_id != topic.topic_id:
                states = {}  # the old states are of a deleted topic of the same name
            states.update({state.partition_index: state for state in topic.partition_states})
            self._topics[topic.topic_name] = topic.topic_id, states

    def message(self) -> UpdateMetadataRequest:
        """Return the merged request."""
        latest = self._latest
        return UpdateMetadataRequest(
            controller_id=latest.controller_id,
            controller_epoch=latest.controller_epoch,
            broker_epoch=latest.broker_epoch,
            live_brokers=latest.live_brokers,
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name=name, topic_id=topic_id, partition_states=list(states.values())
                )
                for name, (topic_id, states) in self._topics.items()
            ],
        )
