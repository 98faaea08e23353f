"""The permissions for the APIs about topics and their records."""

from typing import TYPE_CHECKING, Final

from cluster.handlers.authorization.guards import each_of, narrow, split
from cluster.security.acl import CLUSTER_NAME, Operation, ResourceType
from wire.errors import Error
from wire.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_producers,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from wire.types import NO_OFFSET, NO_TIMESTAMP, NO_TOPIC_ID

if TYPE_CHECKING:
    from cluster.handlers.authorization.guards import Guarded
    from cluster.handlers.call import ApiCall

REFUSED: Final = Error.TOPIC_AUTHORIZATION_FAILED
_TRANSACTIONAL_AT: Final = 22
_TRANSACTIONAL_BIT: Final = 0x10
_CONFIGS_SINCE: Final = 5
_BY_ID_SINCE: Final = 6


def produce_guard(call: "ApiCall[Guarded]") -> bool:
    """Require WRITE on the transactional id of transactional batches, then WRITE on each topic."""
    request: produce.ProduceRequest = call.request
    transactional = any(
        records is not None
        and len(records) > _TRANSACTIONAL_AT
        and records[_TRANSACTIONAL_AT] & _TRANSACTIONAL_BIT
        for topic in request.topic_data
        for records in (data.records for data in topic.partition_data)
    )
    if transactional and call.version >= 3:
        name = request.transactional_id
        if name is None or not call.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            error = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            refusals = [_produce_refusal(topic, error) for topic in request.topic_data]
            if request.acks:
                call.respond(produce.ProduceResponse(responses=refusals))
            else:
                call.close()
            return False
    permitted, refused = split(
        call, request.topic_data, lambda topic: topic.name, Operation.WRITE, ResourceType.TOPIC
    )
    if refused:
        refusals = [_produce_refusal(topic, REFUSED) for topic in refused]
        narrow(call, "topic_data", permitted, "responses", refusals)
    return True


def _produce_refusal(topic: produce.TopicProduceData, error: Error) -> produce.TopicProduceResponse:
    return produce.TopicProduceResponse(
        name=topic.name,
        partition_responses=[
            produce.PartitionProduceResponse(
                index=data.index, error_code=error, base_offset=NO_OFFSET, error_message=error.text
            )
            for data in topic.partition_data
        ],
    )


list_offsets_guard = each_of(
    "topics",
    lambda topic: topic.name,
    Operation.DESCRIBE,
    ResourceType.TOPIC,
    "topics",
    lambda topic: list_offsets.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            list_offsets.ListOffsetsPartitionResponse(
                partition_index=partition.partition_index,
                error_code=REFUSED,
                timestamp=NO_TIMESTAMP,
                offset=NO_OFFSET,
            )
            for partition in topic.partitions
        ],
    ),
)
delete_records_guard = each_of(
    "topics",
    lambda topic: topic.name,
    Operation.DELETE,
    ResourceType.TOPIC,
    "topics",
    lambda topic: delete_records.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=[
            delete_records.DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=NO_OFFSET, error_code=REFUSED
            )
            for partition in topic.partitions
        ],
    ),
)
describe_producers_guard = each_of(
    "topics",
    lambda topic: topic.name,
    Operation.READ,
    ResourceType.TOPIC,
    "topics",
    lambda topic: describe_producers.TopicResponse(
        name=topic.name,
        partitions=[
            describe_producers.PartitionResponse(partition_index=index, error_code=REFUSED)
            for index in topic.partition_indexes
        ],
    ),
)
_describe_for_epochs = each_of(
    "topics",
    lambda topic: topic.topic,
    Operation.DESCRIBE,
    ResourceType.TOPIC,
    "topics",
    lambda topic: offset_for_leader_epoch.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=[
            offset_for_leader_epoch.EpochEndOffset(partition=partition.partition, error_code=REFUSED)
            for partition in topic.partitions
        ],
    ),
)


def offset_for_leader_epoch_guard(call: "ApiCall[Guarded]") -> bool:
    """Require CLUSTER_ACTION, which followers have, or DESCRIBE on each topic."""
    follower = call.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True)
    return follower or _describe_for_epochs(call)


def create_topics_guard(call: "ApiCall[Guarded]") -> bool:
    """Require CREATE on the cluster, or on each topic; and DESCRIBE_CONFIGS if configurations are shown.

    The handler refuses requests to a broker that is not the controller, and topics named twice.
    """
    if not call.broker.controller.is_active:
        return True
    request: create_topics.CreateTopicsRequest = call.request
    if not call.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        names = [topic.name for topic in request.topics]
        denied = {
            name
            for name in dict.fromkeys(names)
            if names.count(name) == 1 and not call.may(Operation.CREATE, ResourceType.TOPIC, name)
        }
        if denied:
            permitted = [topic for topic in request.topics if topic.name not in denied]
            refusals = [
                create_topics.CreatableTopicResult(
                    name=topic.name,
                    error_code=REFUSED,
                    error_message="not authorized to create the topic",
                    configs=[],
                )
                for topic in request.topics
                if topic.name in denied
            ]
            narrow(call, "topics", permitted, "topics", refusals)
    if call.version >= _CONFIGS_SINCE:
        call.amend(
            lambda response: response.replace(topics=[_hide_configs(call, each) for each in response.topics])
        )
    return True


def _hide_configs(
    call: "ApiCall[Guarded]", topic: create_topics.CreatableTopicResult
) -> create_topics.CreatableTopicResult:
    if topic.error_code or call.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, quiet=True):
        return topic
    return topic.replace(
        topic_config_error_code=REFUSED, num_partitions=-1, replication_factor=-1, configs=[]
    )


def create_partitions_guard(call: "ApiCall[Guarded]") -> bool:
    """Require ALTER on each topic; the handler refuses duplicates, and all if this is not the controller."""
    if not call.broker.controller.is_active:
        return True
    names = [topic.name for topic in call.request.topics]
    denied = {
        name
        for name in dict.fromkeys(names)
        if names.count(name) == 1 and not call.may(Operation.ALTER, ResourceType.TOPIC, name)
    }
    if denied:
        permitted = [topic for topic in call.request.topics if topic.name not in denied]
        refusals = [
            create_partitions.CreatePartitionsTopicResult(
                name=name, error_code=REFUSED, error_message="not authorized to alter the topic"
            )
            for name in names
            if name in denied
        ]
        narrow(call, "topics", permitted, "results", refusals)
    return True


def delete_topics_guard(call: "ApiCall[Guarded]") -> bool:
    """Require DELETE on each topic, and DESCRIBE before a topic's id shows its name."""
    broker = call.broker
    if not (broker.controller.is_active and broker.config.delete_topic_enable):
        return True
    request: delete_topics.DeleteTopicsRequest = call.request
    if call.version < _BY_ID_SINCE:
        permitted, refused = split(
            call, request.topic_names, lambda name: name, Operation.DELETE, ResourceType.TOPIC
        )
        if refused:
            refusals = [delete_topics.DeletableTopicResult(name=name, error_code=REFUSED) for name in refused]
            narrow(call, "topic_names", permitted, "responses", refusals)
        return True
    if any(topic.name is not None and any(topic.topic_id) for topic in request.topics):
        return True
    permitted, refusals = [], []
    for topic in request.topics:
        refusal = _delete_refusal(call, topic)
        if refusal is None:
            permitted.append(topic)
        else:
            refusals.append(refusal)
    if refusals:
        narrow(call, "topics", permitted, "responses", refusals)
    return True


def _delete_refusal(
    call: "ApiCall[Guarded]", topic: delete_topics.DeleteTopicState
) -> delete_topics.DeletableTopicResult | None:
    name = topic.name
    if name is None:
        name = call.broker.metadata.snapshot.topic_names.get(topic.topic_id)
        if name is None:
            return None  # the handler answers that no topic has this id
        if not call.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return delete_topics.DeletableTopicResult(
                name=None, topic_id=topic.topic_id, error_code=REFUSED, error_message=REFUSED.text
            )
    if call.may(Operation.DELETE, ResourceType.TOPIC, name):
        return None
    topic_id = topic.topic_id if any(topic.topic_id) else NO_TOPIC_ID
    return delete_topics.DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=REFUSED, error_message=REFUSED.text
    )
