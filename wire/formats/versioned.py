"""A data format with its version in front: ``version: int16 | the fields of that version``."""

import struct
from typing import Final, TypeVar

from wire.codec import Buffer, decode, decoder, encode_into
from wire.errors import RemoteProtocolError
from wire.schema import Data

D = TypeVar("D", bound=Data)
_VERSION: Final = struct.Struct(">h")


def encode_versioned(message: Data, version: int) -> bytes:
    """Encode with the version in front.

    Raises:
        ValueError: the version cannot carry the message.
    """
    out = bytearray(_VERSION.pack(version))
    encode_into(message, version, out)
    return bytes(out)


def peek_version(buffer: Buffer) -> int:
    """Return the version in front; it decides which format a key of an internal topic has.

    Raises:
        RemoteProtocolError: there are fewer than two bytes.
    """
    if len(buffer) < _VERSION.size:
        raise RemoteProtocolError("a versioned format is shorter than its version")
    version: int = _VERSION.unpack_from(buffer)[0]
    return version


def decode_versioned(cls: type[D], buffer: Buffer) -> D:
    """Decode what fills ``buffer``, in the version that it names.

    Raises:
        UnsupportedVersionError: we have no schema for that version.
        RemoteProtocolError: the bytes are not of that format, or others follow.
    """
    return decode(cls, peek_version(buffer), buffer, _VERSION.size)


def decode_forward_compatible(cls: type[D], buffer: Buffer) -> D:
    """Decode a format whose later versions only ever append fields: a later one is read as the last we know.

    What follows the last known field is ignored, as Kafka's clients do with each other's subscriptions.

    Raises:
        UnsupportedVersionError: the version is negative.
        RemoteProtocolError: the bytes are not of that format.
    """
    version = min(peek_version(buffer), cls.__schema__.versions.last)
    message, _ = decoder(cls, version)(buffer, _VERSION.size)
    return message
