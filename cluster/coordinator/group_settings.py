"""The settings of the group coordinator, as Kafka names them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of the group coordinator; times in milliseconds."""

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    offset_metadata_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_ms: int = 600_000
    load_buffer_size: int = 5 * 1024 * 1024
