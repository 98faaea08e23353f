"""Encodes and decodes messages: one function per message, version and direction, made on first use."""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from wire.decoder_source import compile_decoder
from wire.encoder_source import compile_encoder
from wire.errors import RemoteProtocolError, UnsupportedVersionError
from wire.file_range import FileRange
from wire.schema import Message
from wire.uncopied import UncopiedRecords

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview
Ranges = list[tuple[int, FileRange | UncopiedRecords]]

_decoders: dict[tuple[type[Message], int], Callable[..., Any]] = {}
_encoders: dict[tuple[type[Message], int], Callable[..., None]] = {}


def encode(message: Message, version: int) -> bytearray:
    """Encode the body of a message.

    Raises:
        ValueError: the version cannot carry the message: a field that it lacks, and that may not be dropped,
            has a value; something that may not be null is; a number or a string is out of range. Or there is
            no such version.
    """
    out = bytearray()
    encode_into(message, version, out)
    return out


def encode_into(message: Message, version: int, out: bytearray, ranges: Ranges | None = None) -> None:
    """Append the body of a message to ``out``; see `encode`.

    Args:
        message: what to append.
        version: of the API or format.
        out: grows; on an error, what was appended until then stays in it.
        ranges: receives (offset in ``out``, range) of each `FileRange` or `UncopiedRecords`, whose bytes belong
            there; without it, they are errors.
    """
    try:
        encoder(type(message), version)(message, out, ranges)
    except struct.error as error:
        raise ValueError(f"{type(message).__name__} v{version} cannot be encoded: {error}") from error


def decode(cls: type[M], version: int, buffer: Buffer, offset: int = 0) -> M:
    """Decode the body of a message that fills the rest of ``buffer``.

    Records are views into ``buffer``; everything else is copied.

    Raises:
        RemoteProtocolError: the bytes are not such a message, or others follow it.
        UnsupportedVersionError: there is no such version.
    """
    message, end = decoder(cls, version)(buffer, offset)
    if end != len(buffer):
        raise RemoteProtocolError(f"{len(buffer) - end} bytes follow {cls.__name__} v{version}")
    return message


def decoder(cls: type[M], version: int) -> Callable[[Buffer, int], tuple[M, int]]:
    """Return the function ``(buffer, offset) -> (message, offset after it)``; it raises `RemoteProtocolError`.

    Raises:
        UnsupportedVersionError: there is no such version.
    """
    made = _decoders.get((cls, version))
    if made is None:
        if version not in cls.__schema__.versions:
            raise UnsupportedVersionError(f"{cls.__name__} has no version {version}")
        made = _decoders[cls, version] = compile_decoder(cls, version)
    return made


def encoder(cls: type[Message], version: int) -> Callable[..., None]:
    """Return the function ``(message, out, ranges=None)`` that appends; see `encode_into`.

    Raises:
        ValueError: there is no such version.
    """
    made = _encoders.get((cls, version))
    if made is None:
        if version not in cls.__schema__.versions:
            raise ValueError(f"{cls.__name__} has no version {version}")
        made = _encoders[cls, version] = compile_encoder(cls, version)
    return made
