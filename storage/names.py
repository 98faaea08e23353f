"""The names of files and directories in a log directory: Kafka's names, built and parsed in one place.

<log dir>/orders-3/00000000000000001200.log      the batches of a segment that starts at offset 1200
<log dir>/orders-3/00000000000000001200.index    and its .timeindex, .txnindex, .snapshot
<log dir>/orders-3.<32 hex digits>-delete        a partition on its way out
<log dir>/orders-3.<32 hex digits>-future        a replica that is moving in from another directory
"""

from wire.types import Offset, TopicPartition

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

DELETE_DIRECTORY = "-delete"
FUTURE_DIRECTORY = "-future"
STRAY_DIRECTORY = "-stray"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
META_PROPERTIES = "meta.properties"

_NAME_LIMIT = 255


def segment_name(base_offset: Offset, suffix: str) -> str:
    """Name a segment's file: 20 digits of base offset, then the suffix."""
    return f"{base_offset:020d}{suffix}"


def parse_offset(name: str) -> Offset | None:
    """Read the offset that a segment file's name starts with; None where it starts with none."""
    digits = name.partition(".")[0]
    if not digits.isascii() or not digits.isdigit():
        return None
    return Offset(int(digits))


def partition_directory(partition: TopicPartition) -> str:
    """Name a partition's directory."""
    return f"{partition.topic}-{partition.partition}"


def marked_directory(partition: TopicPartition, unique: str, mark: str) -> str:
    """Name a partition's directory that is being deleted (or moved), with a long topic cut so that the name
    fits.

    Args:
        partition: whose directory.
        unique: 32 hex digits that tell it from earlier ones of the same partition.
        mark: `DELETE_DIRECTORY`, `FUTURE_DIRECTORY` or `STRAY_DIRECTORY`.
    """
    tail = f"-{partition.partition}.{unique}{mark}"
    topic = partition.topic if mark == FUTURE_DIRECTORY else partition.topic[: _NAME_LIMIT - len(tail)]
    return topic + tail


def parse_partition_directory(name: str) -> tuple[TopicPartition, str] | None:
    """Read a partition directory's name: the partition and its mark ("" for a live one); None where it is no
    partition's.

    A topic may contain dashes and dots, so the partition is what follows the last dash.
    """
    mark = ""
    for candidate in (DELETE_DIRECTORY, FUTURE_DIRECTORY, STRAY_DIRECTORY):
        if name.endswith(candidate):
            mark = candidate
            name, dot, unique = name.removesuffix(candidate).rpartition(".")
            if not dot or not unique:
                return None
            break
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return TopicPartition(topic, int(partition)), mark
