"""Which APIs a broker serves: every handler module, once."""

from cluster.handlers import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    leader_and_isr,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    update_metadata,
)
from cluster.handlers.registry import Registry

_HANDLERS = (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    elect_leaders,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    leader_and_isr,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    update_metadata,
)


def served_apis() -> Registry:
    """Give a registry of everything that is served."""
    registry = Registry()
    for handler in _HANDLERS:
        handler.register(registry)
    return registry
