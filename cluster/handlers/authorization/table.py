"""The guard of every API: a broker with an authorizer does not start with a route that has none.

Metadata and Fetch authorize inside their handlers, because only these know the resources: the topics of a cached
encoded answer, and the partitions of a session. The delegation token APIs decide by the tokens' owners.
"""

from collections.abc import Mapping
from typing import Final

from cluster.handlers.authorization import cluster, configs, groups, topics, transactions
from cluster.handlers.authorization.guards import Guard, open_to_all
from wire.apis import ApiKey

GUARDS: Final[Mapping[ApiKey, Guard]] = {
    ApiKey.PRODUCE: topics.produce_guard,
    ApiKey.FETCH: open_to_all,
    ApiKey.LIST_OFFSETS: topics.list_offsets_guard,
    ApiKey.METADATA: open_to_all,
    ApiKey.LEADER_AND_ISR: cluster.leader_and_isr_guard,
    ApiKey.STOP_REPLICA: cluster.stop_replica_guard,
    ApiKey.UPDATE_METADATA: cluster.update_metadata_guard,
    ApiKey.CONTROLLED_SHUTDOWN: cluster.controlled_shutdown_guard,
    ApiKey.OFFSET_COMMIT: groups.offset_commit_guard,
    ApiKey.OFFSET_FETCH: groups.offset_fetch_guard,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator_guard,
    ApiKey.JOIN_GROUP: groups.join_group_guard,
    ApiKey.HEARTBEAT: groups.heartbeat_guard,
    ApiKey.LEAVE_GROUP: groups.leave_group_guard,
    ApiKey.SYNC_GROUP: groups.sync_group_guard,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups_guard,
    ApiKey.LIST_GROUPS: groups.list_groups_guard,
    ApiKey.SASL_HANDSHAKE: open_to_all,
    ApiKey.API_VERSIONS: open_to_all,
    ApiKey.CREATE_TOPICS: topics.create_topics_guard,
    ApiKey.DELETE_TOPICS: topics.delete_topics_guard,
    ApiKey.DELETE_RECORDS: topics.delete_records_guard,
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id_guard,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: topics.offset_for_leader_epoch_guard,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn_guard,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn_guard,
    ApiKey.END_TXN: transactions.end_txn_guard,
    ApiKey.WRITE_TXN_MARKERS: transactions.write_txn_markers_guard,
    ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit_guard,
    ApiKey.DESCRIBE_ACLS: cluster.describe_acls_guard,
    ApiKey.CREATE_ACLS: cluster.create_acls_guard,
    ApiKey.DELETE_ACLS: cluster.delete_acls_guard,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs_guard,
    ApiKey.ALTER_CONFIGS: configs.alter_configs_guard,
    ApiKey.ALTER_REPLICA_LOG_DIRS: cluster.alter_replica_log_dirs_guard,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.describe_log_dirs_guard,
    ApiKey.SASL_AUTHENTICATE: open_to_all,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions_guard,
    ApiKey.CREATE_DELEGATION_TOKEN: open_to_all,
    ApiKey.RENEW_DELEGATION_TOKEN: open_to_all,
    ApiKey.EXPIRE_DELEGATION_TOKEN: open_to_all,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: open_to_all,
    ApiKey.DELETE_GROUPS: groups.delete_groups_guard,
    ApiKey.ELECT_LEADERS: cluster.elect_leaders_guard,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs_guard,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster.alter_partition_reassignments_guard,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster.list_partition_reassignments_guard,
    ApiKey.OFFSET_DELETE: groups.offset_delete_guard,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster.describe_client_quotas_guard,
    ApiKey.ALTER_CLIENT_QUOTAS: cluster.alter_client_quotas_guard,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster.describe_user_scram_credentials_guard,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster.alter_user_scram_credentials_guard,
    ApiKey.ALTER_PARTITION: cluster.alter_partition_guard,
    ApiKey.UPDATE_FEATURES: cluster.update_features_guard,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster_guard,
    ApiKey.DESCRIBE_PRODUCERS: topics.describe_producers_guard,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions_guard,
    ApiKey.LIST_TRANSACTIONS: transactions.list_transactions_guard,
    ApiKey.ALLOCATE_PRODUCER_IDS: cluster.allocate_producer_ids_guard,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: open_to_all,
    ApiKey.CONSUMER_GROUP_DESCRIBE: open_to_all,
    ApiKey.WATCH_SESSION: cluster.watch_session_guard,
    ApiKey.REACH_BROKER: cluster.reach_broker_guard,
}
