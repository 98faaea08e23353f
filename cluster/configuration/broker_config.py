"""The configuration of one broker, typed; the attribute of a setting is its key in snake case."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class BrokerConfig:
    """Every served setting as a typed attribute.

    Values of settings that may change at run time are replaced in place, so code reads `config.x` where it
    needs x and keeps no copy. Times are in the unit that the name ends in.
    """

    advertised_listeners: str | None
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    background_threads: int
    broker_id: int
    compression_type: str
    control_plane_listener_name: str | None
    delete_topic_enable: bool
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    listeners: str
    log_dir: str
    log_dirs: str | None
    log_flush_interval_messages: int
    log_flush_interval_ms: int | None
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_retention_bytes: int
    log_retention_hours: int
    log_retention_minutes: int | None
    log_retention_ms: int | None
    log_roll_hours: int
    log_roll_jitter_hours: int
    log_roll_jitter_ms: int | None
    log_roll_ms: int | None
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    message_max_bytes: int
    min_insync_replicas: int
    num_io_threads: int
    num_network_threads: int
    num_recovery_threads_per_data_dir: int
    num_replica_alter_log_dirs_threads: int | None
    num_replica_fetchers: int
    offset_metadata_max_bytes: int
    offsets_commit_required_acks: int
    offsets_commit_timeout_ms: int
    offsets_load_buffer_size: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    queued_max_requests: int
    replica_fetch_min_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_socket_receive_buffer_bytes: int
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    transaction_max_timeout_ms: int
    transaction_state_log_load_buffer_size: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
    unclean_leader_election_enable: bool
    zookeeper_connect: str | None
    zookeeper_connection_timeout_ms: int | None
    zookeeper_max_in_flight_requests: int
    zookeeper_metadata_migration_enable: bool
    zookeeper_session_timeout_ms: int
    zookeeper_set_acl: bool
    broker_id_generation_enable: bool
    broker_rack: str | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    connections_max_idle_ms: int
    connections_max_reauth_ms: int
    controlled_shutdown_enable: bool
    controlled_shutdown_max_retries: int
    controlled_shutdown_retry_backoff_ms: int
    controller_socket_timeout_ms: int
    default_replication_factor: int
    delete_records_purgatory_purge_interval_requests: int
    fetch_max_bytes: int
    fetch_purgatory_purge_interval_requests: int
    group_coordinator_append_linger_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_coordinator_threads: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    inter_broker_listener_name: str | None
    inter_broker_protocol_version: str
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_delete_retention_ms: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_threads: int
    log_cleanup_policy: tuple[str, ...]
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_local_retention_bytes: int
    log_local_retention_ms: int
    log_message_format_version: str
    log_message_timestamp_after_max_ms: int
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_difference_max_ms: int
    log_message_timestamp_type: str
    log_preallocate: bool
    log_retention_check_interval_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    num_partitions: int
    principal_builder_class: str
    producer_purgatory_purge_interval_requests: int
    queued_max_request_bytes: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    replica_selector_class: str | None
    reserved_broker_max_id: int
    security_inter_broker_protocol: str
    socket_connection_setup_timeout_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_listen_backlog_size: int
    zookeeper_clientCnxnSocket: str | None
    alter_config_policy_class_name: str | None
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int
    authorizer_class_name: str
    client_quota_callback_class: str | None
    connection_failed_authentication_delay_ms: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    create_topic_policy_class_name: str | None
    listener_security_protocol_map: str
    log_dir_failure_timeout_ms: int
    log_message_downconversion_enable: bool
    producer_id_expiration_ms: int
    quota_window_num: int
    quota_window_size_seconds: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    security_providers: str | None
    telemetry_max_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    ottla_management_socket: str | None
    ottla_metrics_port: int
    log_flush_on_ack: bool
    log_directories: tuple[Path, ...]

    def on_change(self, callback: Callable[[frozenset[str]], None]) -> None:
        """Call back with the names of settings whose value has changed, after each dynamic change."""
        self._callbacks.append(callback)

    def __init__(self, originals: Mapping[str, str]) -> None:
        self.originals: Mapping[str, str] = dict(originals)
        self._callbacks: list[Callable[[frozenset[str]], None]] = []
        self._values: dict[str, Any] = {}
