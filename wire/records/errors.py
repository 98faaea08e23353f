"""Errors in a batch of records that a peer sent or a disk returned."""

from wire.errors import RemoteProtocolError


class CorruptRecordError(RemoteProtocolError):
    """Bytes that are not a valid batch: bad magic, size, checksum, compressed data or record."""


class UnsupportedCompressionError(RemoteProtocolError):
    """A codec that the format at hand cannot carry: an unknown number, or zstd below magic 2."""
