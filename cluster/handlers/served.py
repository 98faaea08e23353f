"""The APIs that a broker serves: every handler module, once."""

from importlib import import_module
from typing import Final

from cluster.handlers.registry import Registry

_HANDLERS: Final = (
    "add_offsets_to_txn",
    "add_partitions_to_txn",
    "allocate_producer_ids",
    "alter_client_quotas",
    "alter_configs",
    "alter_partition",
    "alter_partition_reassignments",
    "alter_replica_log_dirs",
    "alter_user_scram_credentials",
    "api_versions",
    "consumer_group_describe",
    "consumer_group_heartbeat",
    "controlled_shutdown",
    "create_acls",
    "create_delegation_token",
    "create_partitions",
    "create_topics",
    "delete_acls",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "describe_acls",
    "describe_client_quotas",
    "describe_cluster",
    "describe_configs",
    "describe_delegation_token",
    "describe_groups",
    "describe_log_dirs",
    "describe_producers",
    "describe_transactions",
    "describe_user_scram_credentials",
    "elect_leaders",
    "end_txn",
    "expire_delegation_token",
    "fetch",
    "find_coordinator",
    "heartbeat",
    "incremental_alter_configs",
    "init_producer_id",
    "join_group",
    "leader_and_isr",
    "leave_group",
    "list_groups",
    "list_offsets",
    "list_partition_reassignments",
    "list_transactions",
    "metadata",
    "offset_commit",
    "offset_delete",
    "offset_fetch",
    "offset_for_leader_epoch",
    "produce",
    "reach_broker",
    "sasl_handshake",
    "renew_delegation_token",
    "stop_replica",
    "sync_group",
    "txn_offset_commit",
    "update_metadata",
    "watch_session",
    "write_txn_markers",
)
"""Modules of this package, each with a function `register`."""

_MODULES: Final = tuple(import_module(f"{__package__}.{name}") for name in _HANDLERS)
"""Imported with this module, and so before a broker's process is forked."""


def served_apis() -> Registry:
    """Return a registry of everything that is served."""
    registry = Registry()
    for module in _MODULES:
        module.register(registry)
    return registry
