"""What can be wrong with a batch of records that somebody sent us or that a disk gave back."""

from wire.errors import RemoteProtocolError


class CorruptRecordError(RemoteProtocolError):
    """Bytes that are no valid batch: bad magic, size, checksum, compressed data or record."""


class UnsupportedCompressionError(RemoteProtocolError):
    """A codec that the format at hand cannot carry: an unknown number, or zstd below magic 2."""
