"""The permissions for APIs about the cluster itself: requests from brokers, and from administrators."""

from typing import TYPE_CHECKING, Any, Final

from cluster.handlers.authorization.guards import on_cluster, operations_bits
from cluster.security.acl import CLUSTER_NAME, Operation, ResourceType
from wire.errors import Error
from wire.messages import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    controlled_shutdown,
    create_acls,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_log_dirs,
    describe_user_scram_credentials,
    elect_leaders,
    leader_and_isr,
    list_partition_reassignments,
    reach_broker,
    stop_replica,
    update_features,
    update_metadata,
    watch_session,
)

if TYPE_CHECKING:
    from cluster.handlers.authorization.guards import Guarded
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import CallContext

REFUSED: Final = Error.CLUSTER_AUTHORIZATION_FAILED
TEXT: Final = "not authorized"
"""Kafka quotes the whole request here, which tells clients nothing and readers of logs too much."""


def _leader_and_isr_refused(call: "ApiCall[Guarded]") -> leader_and_isr.LeaderAndIsrResponse:
    request: leader_and_isr.LeaderAndIsrRequest = call.request
    if call.version >= 5:
        return leader_and_isr.LeaderAndIsrResponse(
            error_code=REFUSED,
            topics=[
                leader_and_isr.LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        leader_and_isr.LeaderAndIsrPartitionError(
                            partition_index=state.partition_index, error_code=REFUSED
                        )
                        for state in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ],
        )
    named = [(state.topic_name, state.partition_index) for state in request.ungrouped_partition_states]
    named += [
        (topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return leader_and_isr.LeaderAndIsrResponse(
        error_code=REFUSED,
        partition_errors=[
            leader_and_isr.LeaderAndIsrPartitionError(
                topic_name=name, partition_index=index, error_code=REFUSED
            )
            for name, index in named
        ],
    )


def _stop_replica_refused(call: "ApiCall[Guarded]") -> stop_replica.StopReplicaResponse:
    request: stop_replica.StopReplicaRequest = call.request
    named = [(partition.topic_name, partition.partition_index) for partition in request.ungrouped_partitions]
    named += [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    named += [
        (topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    return stop_replica.StopReplicaResponse(
        error_code=REFUSED,
        partition_errors=[
            stop_replica.StopReplicaPartitionError(topic_name=name, partition_index=index, error_code=REFUSED)
            for name, index in named
        ],
    )


_ACTION: Final = Operation.CLUSTER_ACTION
leader_and_isr_guard = on_cluster(_ACTION, _leader_and_isr_refused)
stop_replica_guard = on_cluster(_ACTION, _stop_replica_refused)
watch_session_guard = on_cluster(_ACTION, lambda _: watch_session.WatchSessionResponse(error_code=REFUSED))
reach_broker_guard = on_cluster(
    _ACTION, lambda _: reach_broker.ReachBrokerResponse(error_code=REFUSED, is_reached=True)
)
update_metadata_guard = on_cluster(
    _ACTION, lambda _: update_metadata.UpdateMetadataResponse(error_code=REFUSED)
)
controlled_shutdown_guard = on_cluster(
    _ACTION, lambda _: controlled_shutdown.ControlledShutdownResponse(error_code=REFUSED)
)
alter_partition_guard = on_cluster(
    _ACTION, lambda _: alter_partition.AlterPartitionResponse(error_code=REFUSED)
)
allocate_producer_ids_guard = on_cluster(
    _ACTION, lambda _: allocate_producer_ids.AllocateProducerIdsResponse(error_code=REFUSED)
)
update_features_guard = on_cluster(
    Operation.ALTER, lambda _: update_features.UpdateFeaturesResponse(error_code=REFUSED, error_message=TEXT)
)


def _reassignments_refused(call: "ApiCall[Guarded]") -> Any:
    return alter_partition_reassignments.AlterPartitionReassignmentsResponse(
        error_code=REFUSED,
        error_message=TEXT,
        responses=[
            alter_partition_reassignments.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    alter_partition_reassignments.ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=REFUSED, error_message=TEXT
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in call.request.topics
        ],
    )


alter_partition_reassignments_guard = on_cluster(Operation.ALTER, _reassignments_refused)
list_partition_reassignments_guard = on_cluster(
    Operation.DESCRIBE,
    lambda _: list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_code=REFUSED, error_message=TEXT
    ),
)
elect_leaders_guard = on_cluster(
    Operation.ALTER,
    lambda call: elect_leaders.ElectLeadersResponse(
        error_code=REFUSED,
        replica_election_results=[
            elect_leaders.ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    elect_leaders.PartitionResult(
                        partition_id=index, error_code=REFUSED, error_message=REFUSED.text
                    )
                    for index in topic.partitions
                ],
            )
            for topic in call.request.topic_partitions or ()
        ],
    ),
)


def _log_dirs_refused(call: "ApiCall[Guarded]") -> alter_replica_log_dirs.AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[int]] = {}
    for directory in call.request.dirs:
        for topic in directory.topics:
            by_topic.setdefault(topic.name, []).extend(topic.partitions)
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(
        results=[
            alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(
                        partition_index=index, error_code=REFUSED
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic.items()
        ]
    )


alter_replica_log_dirs_guard = on_cluster(Operation.ALTER, _log_dirs_refused)
describe_log_dirs_guard = on_cluster(
    Operation.DESCRIBE,
    lambda call: describe_log_dirs.DescribeLogDirsResponse(error_code=REFUSED if call.version >= 3 else 0),
)
describe_acls_guard = on_cluster(
    Operation.DESCRIBE, lambda _: describe_acls.DescribeAclsResponse(error_code=REFUSED, error_message=TEXT)
)
create_acls_guard = on_cluster(
    Operation.ALTER,
    lambda call: create_acls.CreateAclsResponse(
        results=[
            create_acls.AclCreationResult(error_code=REFUSED, error_message=TEXT)
            for _ in call.request.creations
        ]
    ),
)
delete_acls_guard = on_cluster(
    Operation.ALTER,
    lambda call: delete_acls.DeleteAclsResponse(
        filter_results=[
            delete_acls.DeleteAclsFilterResult(error_code=REFUSED, error_message=TEXT)
            for _ in call.request.filters
        ]
    ),
)
describe_client_quotas_guard = on_cluster(
    Operation.DESCRIBE_CONFIGS,
    lambda _: describe_client_quotas.DescribeClientQuotasResponse(
        error_code=REFUSED, error_message=TEXT, entries=None
    ),
)
alter_client_quotas_guard = on_cluster(
    Operation.ALTER_CONFIGS,
    lambda call: alter_client_quotas.AlterClientQuotasResponse(
        entries=[
            alter_client_quotas.EntryDataResponse(
                error_code=REFUSED, error_message=TEXT, entity=list(entry.entity)
            )
            for entry in call.request.entries
        ]
    ),
)
describe_user_scram_credentials_guard = on_cluster(
    Operation.DESCRIBE,
    lambda call: describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        error_code=REFUSED,
        error_message=TEXT,
        results=[
            describe_user_scram_credentials.DescribeUserScramCredentialsResult(
                user=user.name, error_code=REFUSED, error_message=TEXT
            )
            for user in call.request.users or ()
        ],
    ),
)


def alter_user_scram_credentials_guard(call: "ApiCall[Guarded]") -> bool:
    """Require ALTER on the cluster, if this is the controller; elsewhere the handler answers NOT_CONTROLLER."""
    return not call.broker.controller.is_active or _alter_scram(call)


_alter_scram = on_cluster(
    Operation.ALTER,
    lambda call: alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[
            alter_user_scram_credentials.AlterUserScramCredentialsResult(
                user=name, error_code=REFUSED, error_message=TEXT
            )
            for name in sorted({each.name for each in (*call.request.deletions, *call.request.upsertions)})
        ]
    ),
)


def describe_cluster_guard(call: "ApiCall[Guarded]") -> bool:
    """Show what the client may do with the cluster, if it asks for that; nothing if it may not DESCRIBE it."""
    if call.request.include_cluster_authorized_operations:
        bits = cluster_bits(call)
        call.amend(
            lambda response: (
                response if response.error_code else response.replace(cluster_authorized_operations=bits)
            )
        )
    return True


def cluster_bits(call: "ApiCall[CallContext]") -> int:
    """Return the authorized-operations field of the cluster; 0 for a client that may not describe it."""
    if not call.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, quiet=True):
        return 0
    return operations_bits(call, ResourceType.CLUSTER, CLUSTER_NAME)
