"""A log's settings: the topic-level configuration of Kafka 3.9 as typed values, with Kafka's defaults.

Each field is the topic configuration of the same name with dots for underscores (`segment_bytes` is
`segment.bytes`). Sizes are in bytes, times in milliseconds, and -1 means no limit where Kafka says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

INT64_MAX: Final = (1 << 63) - 1
_DAY_MS: Final = 24 * 60 * 60 * 1000

_PRODUCER: Final = "producer"


class InvalidLogConfigError(ValueError):
    """A topic configuration that cannot be parsed as its type.

    Attributes:
        name: the configuration, with dots.
        value: what was given.
        expected: what would have been valid.
    """

    def __init__(self, name: str, value: str, expected: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {expected}")
        self.name = name
        self.value = value
        self.expected = expected


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one log."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    max_message_bytes: int = 1024 * 1024 + 12
    compression_type: str = _PRODUCER
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    min_insync_replicas: int = 1
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = INT64_MAX
    message_timestamp_difference_max_ms: int = INT64_MAX
    message_downconversion_enable: bool = True
    message_format_version: str = "3.0-IV1"
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    preallocate: bool = False
    unclean_leader_election_enable: bool = False
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2

    @property
    def compacts(self) -> bool:
        """Whether old values of a key are removed."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether old segments are removed by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """After how long a segment rolls: sooner than `segment.ms` where compaction must not wait so long."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def is_log_append_time(self) -> bool:
        """Whether the leader stamps records with its own clock."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def keeps_producer_compression(self) -> bool:
        """Whether batches are kept in the codec they came in."""
        return self.compression_type == _PRODUCER

    @property
    def timestamp_before_max_ms(self) -> int:
        """How old a record may be: the newer setting, or the deprecated one where only that was set, as in
        Kafka.
        """
        if self.message_timestamp_before_max_ms != INT64_MAX:
            return self.message_timestamp_before_max_ms
        return self.message_timestamp_difference_max_ms

    @property
    def timestamp_after_max_ms(self) -> int:
        """How far in the future a record may be; see `timestamp_before_max_ms`."""
        if self.message_timestamp_after_max_ms != INT64_MAX:
            return self.message_timestamp_after_max_ms
        return self.message_timestamp_difference_max_ms

    @classmethod
    def from_strings(cls, values: Mapping[str, str], base: "LogConfig | None" = None) -> "LogConfig":
        """Read topic configurations in Kafka's text form over a base (the broker's defaults).

        Args:
            values: configuration name, with dots, to text. Names that are no topic configuration are
                ignored: /config/topics may hold others' keys.
            base: what unnamed configurations keep; Kafka's own defaults where None.

        Raises:
            InvalidLogConfigError: a value cannot be parsed as its type.
        """
        parsed: dict[str, Any] = {}
        for name, text in values.items():
            field = name.replace(".", "_")
            parser = _PARSERS.get(field)
            if parser is None:
                continue
            try:
                parsed[field] = parser(text)
            except ValueError as error:
                raise InvalidLogConfigError(name, text, str(error)) from error
        return replace(base if base is not None else cls(), **parsed)


def _parse_bool(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("expected true or false")


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_policy(text: str) -> frozenset[str]:
    policy = frozenset(_parse_list(text))
    if not policy <= {"delete", "compact"}:
        raise ValueError("expected a list of delete and compact")
    return policy


def _parse_int(text: str) -> int:
    return int(text.strip())


_BY_TYPE: Final[Mapping[object, Callable[[str], Any]]] = {
    int: _parse_int,
    float: float,
    bool: _parse_bool,
    str: str.strip,
    tuple[str, ...]: _parse_list,
    frozenset[str]: _parse_policy,
}
_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
    field.name: _BY_TYPE[field.type] for field in fields(LogConfig)
}
