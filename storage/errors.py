"""What can go wrong with a log, each error with the code that Kafka answers for it.

Handlers turn a `LogError` into its `kafka_error` at their border; nothing else maps these. All but
`StorageError` leave the log as it was.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from wire.errors import Error


class LogError(Exception):
    """Base of all: UNKNOWN_SERVER_ERROR.

    Attributes:
        kafka_error: the code that a client gets.
    """

    kafka_error: ClassVar[Error] = Error.UNKNOWN_SERVER_ERROR


class StorageError(LogError):
    """The disk failed, or the log's directory is offline since it did: KAFKA_STORAGE_ERROR. The log cannot
    be used any more.
    """

    kafka_error = Error.KAFKA_STORAGE_ERROR


class OffsetOutOfRangeError(LogError):
    """An offset below the log's start or above its end: OFFSET_OUT_OF_RANGE."""

    kafka_error = Error.OFFSET_OUT_OF_RANGE


class CorruptBatchError(LogError):
    """A batch whose checksum, size or content is damaged: CORRUPT_MESSAGE."""

    kafka_error = Error.CORRUPT_MESSAGE


class RecordTooLargeError(LogError):
    """A batch above `max.message.bytes`: MESSAGE_TOO_LARGE."""

    kafka_error = Error.MESSAGE_TOO_LARGE


class RecordBatchTooLargeError(LogError):
    """An append above `segment.bytes`: RECORD_LIST_TOO_LARGE."""

    kafka_error = Error.RECORD_LIST_TOO_LARGE


class RecordError(NamedTuple):
    """What is wrong with one record of a batch, counted from 0."""

    batch_index: int
    message: str


class InvalidRecordError(LogError):
    """Records that the topic does not take, or a batch that contradicts itself: INVALID_RECORD.

    Attributes:
        record_errors: which records, and why; empty where the batch as a whole is at fault.
    """

    kafka_error = Error.INVALID_RECORD

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidTimestampError(InvalidRecordError):
    """Timestamps outside of what the topic takes, or a client that claims log-append time:
    INVALID_TIMESTAMP.
    """

    kafka_error = Error.INVALID_TIMESTAMP


class UnsupportedCodecError(LogError):
    """A compression codec that the batch's format cannot carry, or an unknown one: UNSUPPORTED_COMPRESSION_TYPE."""

    kafka_error = Error.UNSUPPORTED_COMPRESSION_TYPE


class UnsupportedForMessageFormatError(LogError):
    """Something that old message formats cannot express: UNSUPPORTED_FOR_MESSAGE_FORMAT."""

    kafka_error = Error.UNSUPPORTED_FOR_MESSAGE_FORMAT


class OutOfOrderSequenceError(LogError):
    """A producer's sequence number that leaves a gap: OUT_OF_ORDER_SEQUENCE_NUMBER."""

    kafka_error = Error.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(LogError):
    """A producer that a newer epoch has fenced off: INVALID_PRODUCER_EPOCH."""

    kafka_error = Error.INVALID_PRODUCER_EPOCH


class InvalidTransactionStateError(LogError):
    """A batch that does not fit its producer's transaction: INVALID_TXN_STATE."""

    kafka_error = Error.INVALID_TXN_STATE


class TransactionCoordinatorFencedError(LogError):
    """An end marker from a transaction coordinator that has been succeeded:
    TRANSACTION_COORDINATOR_FENCED.
    """

    kafka_error = Error.TRANSACTION_COORDINATOR_FENCED


class UnexpectedAppendOffsetError(LogError):
    """A follower's append that begins below its log's end, or is out of order within: UNKNOWN_SERVER_ERROR.

    Attributes:
        first_offset: where the append begins.
        last_offset: where it ends.
    """

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class InconsistentTopicIdError(LogError):
    """A log on disk that belongs to another topic of the same name: INCONSISTENT_TOPIC_ID."""

    kafka_error = Error.INCONSISTENT_TOPIC_ID


class LogDirectoryNotFoundError(LogError):
    """A log directory that this broker does not have: LOG_DIR_NOT_FOUND."""

    kafka_error = Error.LOG_DIR_NOT_FOUND


class DirectoryLockedError(LogError):
    """Another broker has the log directory open; a broker cannot start on it."""


class InconsistentDirectoryError(LogError):
    """A log directory that is not this broker's: foreign `meta.properties`, or a partition that another
    directory has too.
    """
