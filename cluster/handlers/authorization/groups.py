"""The permissions for the APIs of consumer groups."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cluster.handlers.authorization.guards import (
    Guard,
    each_of,
    in_turn,
    operations_bits,
    required,
    split,
)
from cluster.security.acl import CLUSTER_NAME, Operation, ResourceType
from wire.errors import Error
from wire.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from wire.types import NO_BROKER, NO_LEADER_EPOCH, NO_OFFSET

if TYPE_CHECKING:
    from cluster.handlers.authorization.guards import Guarded
    from cluster.handlers.call import ApiCall

REFUSED: Final = Error.GROUP_AUTHORIZATION_FAILED
_TOPIC_REFUSED: Final = Error.TOPIC_AUTHORIZATION_FAILED
_TRANSACTION: Final = 1
_GROUP: Final = 0


def _of_group(operation: Operation, refuse: "Callable[[ApiCall[Guarded]], Any]") -> Guard:
    return required(operation, ResourceType.GROUP, lambda request: str(request.group_id), refuse)


heartbeat_guard = _of_group(Operation.READ, lambda _: heartbeat.HeartbeatResponse(error_code=REFUSED))
leave_group_guard = _of_group(Operation.READ, lambda _: leave_group.LeaveGroupResponse(error_code=REFUSED))
join_group_guard = _of_group(
    Operation.READ,
    lambda call: join_group.JoinGroupResponse(
        error_code=REFUSED, protocol_name="" if call.version < 7 else None
    ),
)
_sync = _of_group(Operation.READ, lambda _: sync_group.SyncGroupResponse(error_code=REFUSED))


def sync_group_guard(call: "ApiCall[Guarded]") -> bool:
    """Require READ on the group; a request without its protocol is left to the handler, which refuses it."""
    request: sync_group.SyncGroupRequest = call.request
    incomplete = call.version >= 5 and (request.protocol_type is None or request.protocol_name is None)
    return incomplete or _sync(call)


delete_groups_guard = each_of(
    "groups_names",
    lambda name: str(name),
    Operation.DELETE,
    ResourceType.GROUP,
    "results",
    lambda name: delete_groups.DeletableGroupResult(group_id=name, error_code=REFUSED),
)
_describe_each = each_of(
    "groups",
    lambda name: str(name),
    Operation.DESCRIBE,
    ResourceType.GROUP,
    "groups",
    lambda name: describe_groups.DescribedGroup(error_code=REFUSED, group_id=name),
)


def describe_groups_guard(call: "ApiCall[Guarded]") -> bool:
    """Require DESCRIBE on each group, and show what the client may do with those that it sees."""
    if call.request.include_authorized_operations:
        call.amend(
            lambda response: response.replace(
                groups=[_with_operations(call, each) for each in response.groups]
            )
        )
    return _describe_each(call)


def _with_operations(
    call: "ApiCall[Guarded]", group: describe_groups.DescribedGroup
) -> describe_groups.DescribedGroup:
    if group.error_code:
        return group
    bits = operations_bits(call, ResourceType.GROUP, group.group_id)
    return group.replace(authorized_operations=bits)


def list_groups_guard(call: "ApiCall[Guarded]") -> bool:
    """Show every group to clients with DESCRIBE on the cluster; to others the groups that they may DESCRIBE."""
    if not call.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        call.amend(
            lambda response: response.replace(
                groups=[
                    group
                    for group in response.groups
                    if call.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id, quiet=True)
                ]
            )
        )
    return True


def find_coordinator_guard(call: "ApiCall[Guarded]") -> bool:
    """Require DESCRIBE on the groups or transactional ids whose coordinators are asked for."""
    request: find_coordinator.FindCoordinatorRequest = call.request
    if request.key_type == _GROUP:
        kind, error = ResourceType.GROUP, REFUSED
    elif request.key_type == _TRANSACTION:
        kind, error = ResourceType.TRANSACTIONAL_ID, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        return True
    if call.version < 4:
        if call.may(Operation.DESCRIBE, kind, request.key):
            return True
        call.respond(
            find_coordinator.FindCoordinatorResponse(
                error_code=error, error_message=error.text, node_id=NO_BROKER, port=-1
            )
        )
        return False
    return each_of(
        "coordinator_keys",
        lambda key: str(key),
        Operation.DESCRIBE,
        kind,
        "coordinators",
        lambda key: find_coordinator.Coordinator(
            key=key, node_id=NO_BROKER, port=-1, error_code=error, error_message=error.text
        ),
    )(call)


def _refused_commit(topic: offset_commit.OffsetCommitRequestTopic, error: Error) -> Any:
    return offset_commit.OffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            offset_commit.OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=error
            )
            for partition in topic.partitions
        ],
    )


offset_commit_guard = in_turn(
    _of_group(
        Operation.READ,
        lambda call: offset_commit.OffsetCommitResponse(
            topics=[_refused_commit(topic, REFUSED) for topic in call.request.topics]
        ),
    ),
    each_of(
        "topics",
        lambda topic: topic.name,
        Operation.READ,
        ResourceType.TOPIC,
        "topics",
        lambda topic: _refused_commit(topic, _TOPIC_REFUSED),
    ),
)
_delete_offsets_of_group = _of_group(
    Operation.DELETE, lambda _: offset_delete.OffsetDeleteResponse(error_code=REFUSED)
)


def offset_delete_guard(call: "ApiCall[Guarded]") -> bool:
    """Require DELETE on the group, then READ on each topic."""
    if not _delete_offsets_of_group(call):
        return False
    topics = call.request.topics
    permitted, refused = split(call, topics, lambda topic: topic.name, Operation.READ, ResourceType.TOPIC)
    refusals = [
        offset_delete.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                offset_delete.OffsetDeleteResponsePartition(
                    partition_index=partition.partition_index, error_code=_TOPIC_REFUSED
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    if refused:
        call.request = call.request.replace(topics=permitted)
        # An error for the whole group comes without partitions.
        call.amend(
            lambda response: (
                response if response.error_code else response.replace(topics=[*refusals, *response.topics])
            )
        )
    return True


def offset_fetch_guard(call: "ApiCall[Guarded]") -> bool:
    """Require DESCRIBE on each group, then on each topic; topics that the client did not name are left out."""
    if call.version >= 8:
        return _fetch_of_groups(call)
    request: offset_fetch.OffsetFetchRequest = call.request
    if not call.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        call.respond(_refused_group_before_8(call, request))
        return False
    if request.topics is None:
        call.amend(
            lambda response: response.replace(
                topics=[topic for topic in response.topics if _is_seen(call, topic.name)]
            )
        )
        return True
    permitted, refused = _split_topics(call, request.topics)
    if refused:
        refusals = [_fetch_refusal(topic, _TOPIC_REFUSED) for topic in refused]
        call.request = request.replace(topics=permitted)
        call.amend(
            lambda response: (
                response if response.error_code else response.replace(topics=[*refusals, *response.topics])
            )
        )
    return True


def _refused_group_before_8(
    call: "ApiCall[Guarded]", request: offset_fetch.OffsetFetchRequest
) -> offset_fetch.OffsetFetchResponse:
    if call.version >= 2:
        return offset_fetch.OffsetFetchResponse(error_code=REFUSED)
    if call.version == 1:
        return offset_fetch.OffsetFetchResponse()  # as in Kafka: this version has no field for it
    return offset_fetch.OffsetFetchResponse(
        topics=[_fetch_refusal(topic, REFUSED) for topic in request.topics or ()]
    )


def _fetch_refusal(topic: Any, error: Error) -> offset_fetch.OffsetFetchResponseTopic:
    return offset_fetch.OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            offset_fetch.OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_LEADER_EPOCH,
                metadata="",
                error_code=error,
            )
            for index in topic.partition_indexes
        ],
    )


def _split_topics(call: "ApiCall[Guarded]", topics: Any) -> tuple[list[Any], list[Any]]:
    return split(call, topics, lambda topic: topic.name, Operation.DESCRIBE, ResourceType.TOPIC)


def _fetch_of_groups(call: "ApiCall[Guarded]") -> bool:
    groups, refused_groups = split(
        call, call.request.groups, lambda group: group.group_id, Operation.DESCRIBE, ResourceType.GROUP
    )
    narrowed, unnamed = [], set()
    refusals_of: dict[str, list[offset_fetch.OffsetFetchResponseTopics]] = {}
    for group in groups:
        if group.topics is None:
            unnamed.add(group.group_id)
            narrowed.append(group)
            continue
        permitted, refused = _split_topics(call, group.topics)
        refusals_of[group.group_id] = [_fetch_refusal_8(topic) for topic in refused]
        narrowed.append(group.replace(topics=permitted))
    call.request = call.request.replace(groups=narrowed)

    def amended(group: offset_fetch.OffsetFetchResponseGroup) -> offset_fetch.OffsetFetchResponseGroup:
        if group.error_code:
            return group
        topics = [
            topic for topic in group.topics if group.group_id not in unnamed or _is_seen(call, topic.name)
        ]
        return group.replace(topics=[*refusals_of.get(group.group_id, ()), *topics])

    call.amend(
        lambda response: response.replace(
            groups=[
                *(
                    offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, error_code=REFUSED)
                    for group in refused_groups
                ),
                *(amended(group) for group in response.groups),
            ]
        )
    )
    return True


def _is_seen(call: "ApiCall[Guarded]", name: str) -> bool:
    """Whether a topic that the client did not name is shown to it."""
    return call.may(Operation.DESCRIBE, ResourceType.TOPIC, name, quiet=True)


def _fetch_refusal_8(topic: offset_fetch.OffsetFetchRequestTopics) -> offset_fetch.OffsetFetchResponseTopics:
    return offset_fetch.OffsetFetchResponseTopics(
        name=topic.name,
        partitions=[
            offset_fetch.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                committed_leader_epoch=NO_LEADER_EPOCH,
                metadata="",
                error_code=_TOPIC_REFUSED,
            )
            for index in topic.partition_indexes
        ],
    )
