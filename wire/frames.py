"""Requests and responses with their headers: the contents of one length-prefixed frame.

A request's header, by its version; which one applies follows from API and version::

    length: int32
    api_key: int16 | api_version: int16 | correlation_id: int32     version 0: ControlledShutdown v0
    client_id: nullable string, never compact                       version 1 and 2
    tagged fields                                                   version 2: flexible versions

A response's::

    length: int32 | correlation_id: int32      version 0 and 1
    tagged fields                              version 1: flexible versions, but never ApiVersions

The decoding functions take a frame without its length; the encoding ones return it with the length.
"""

from collections.abc import Callable
from struct import Struct as Layout
from struct import error as StructError
from struct import pack, pack_into
from typing import Any, Final, TypeVar

from wire.apis import API_TABLE, ApiKey
from wire.codec import Buffer, Ranges, decoder, encode_into
from wire.errors import RemoteProtocolError, UnsupportedVersionError
from wire.file_range import FileRange
from wire.schema import Message, Request, Response
from wire.uncopied import UncopiedRecords
from wire.varints import skip_tags

R = TypeVar("R", bound=Response)

_SHORT_HEADER: Final = Layout(">hhi")
_HEADER: Final = Layout(">hhih")
_MAX_CLIENT_ID: Final = 0x7FFF

ResponseFrame = bytearray | list[bytearray | memoryview | FileRange]


class RequestHeader:
    """The header of a request: its API and version, correlation id and client.

    Attributes:
        api_key: of a known API.
        api_version: as the client sent it, served or not.
        correlation_id: returned in the response.
        client_id: what the client calls itself; None in ControlledShutdown v0 and where the client sends none.
    """

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RequestHeader):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # it is never a key

    def __repr__(self) -> str:
        name = ApiKey(self.api_key).name if self.api_key in API_TABLE else str(self.api_key)
        return f"<{name} v{self.api_version} #{self.correlation_id} from {self.client_id!r}>"


def decode_request_header(buffer: Buffer, offset: int = 0) -> tuple[RequestHeader, int]:
    """Read the header of a request of a known API, in any version, so that an unserved one can be answered.

    Returns:
        The header, and the position of the request's body.

    Raises:
        UnsupportedVersionError: the API is not one of `API_TABLE`: its header could be anything.
        RemoteProtocolError: the bytes are no header.
    """
    try:
        api_key, api_version, correlation_id = _SHORT_HEADER.unpack_from(buffer, offset)
        api = API_TABLE.get(api_key)
        if api is None:
            raise UnsupportedVersionError(f"a request has the unknown API key {api_key}")
        if api_version == 0 and api_key == ApiKey.CONTROLLED_SHUTDOWN:
            return RequestHeader(api_key, 0, correlation_id, None), offset + 8
        _, _, _, size = _HEADER.unpack_from(buffer, offset)
        position = offset + 10
        client_id = None
        if size >= 0:
            end = position + size
            if end > len(buffer):
                raise IndexError
            client_id = str(buffer[position:end], "utf-8")
            position = end
        if api.is_flexible(api_version):
            count = buffer[position]
            position += 1
            if count:
                position = skip_tags(memoryview(buffer), position, count, len(buffer))
    except (StructError, IndexError, ValueError) as error:
        raise RemoteProtocolError(f"malformed request header: {error or 'it ends too early'}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def decode_request(buffer: Buffer, offset: int = 0) -> tuple[RequestHeader, Request]:
    """Read a request: header and body.

    Raises:
        UnsupportedVersionError: there is no schema for this API in this version.
        RemoteProtocolError: the bytes are no such request, or others follow it.
    """
    header, position = decode_request_header(buffer, offset)
    decode = _request_decoders.get((header.api_key, header.api_version))
    if decode is None:
        request = API_TABLE[header.api_key].request
        decode = decoder(request, header.api_version)
        _request_decoders[header.api_key, header.api_version] = decode
    message, end = decode(buffer, position)
    if end != len(buffer):
        raise RemoteProtocolError(f"{len(buffer) - end} bytes follow the request of {header!r}")
    return header, message


_request_decoders: dict[tuple[int, int], Callable[[Buffer, int], tuple[Any, int]]] = {}


def encode_request(message: Request, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """Encode a request as a whole frame, its length in front.

    Raises:
        ValueError: the version cannot carry the message, or the client id is too long.
    """
    out = _request_header(message.__schema__.api_key, version, correlation_id, client_id)
    encode_into(message, version, out)
    pack_into(">i", out, 0, len(out) - 4)
    return out


def encode_request_pieces(
    message: Request, version: int, correlation_id: int, client_id: str | None
) -> list[bytearray | memoryview]:
    """Encode a request that may carry `UncopiedRecords`: the frame's pieces in order; see `encode_request`."""
    out = _request_header(message.__schema__.api_key, version, correlation_id, client_id)
    ranges: Ranges = []
    encode_into(message, version, out, ranges)
    pack_into(">i", out, 0, len(out) - 4 + sum(piece.size for _, piece in ranges))
    return _interleave(out, ranges) if ranges else [out]  # type: ignore[return-value]  # no file in a request


def _request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return bytearray(pack(">ihhi", 0, api_key, version, correlation_id))
    name = b"" if client_id is None else client_id.encode()
    if len(name) > _MAX_CLIENT_ID:
        raise ValueError("the client id is too long")
    size = -1 if client_id is None else len(name)
    out = bytearray(pack(">ihhih", 0, api_key, version, correlation_id, size))
    out += name
    if API_TABLE[api_key].is_flexible(version):
        out.append(0)
    return out


def encode_response(message: Response, version: int, correlation_id: int) -> ResponseFrame:
    """Encode a response as a whole frame, its length in front.

    Returns:
        One buffer; or, where a records field holds a `FileRange`, the frame's pieces in order.

    Raises:
        ValueError: the version cannot carry the message.
    """
    if _has_tagged_header(message, version):
        out = bytearray(pack(">iix", 0, correlation_id))
    else:
        out = bytearray(pack(">ii", 0, correlation_id))
    ranges: Ranges = []
    encode_into(message, version, out, ranges)
    if not ranges:
        pack_into(">i", out, 0, len(out) - 4)
        return out
    pack_into(">i", out, 0, len(out) - 4 + sum(piece.size for _, piece in ranges))
    return _interleave(out, ranges)


def decode_response(cls: type[R], version: int, buffer: Buffer, offset: int = 0) -> tuple[int, R]:
    """Read a response: the correlation id and the body.

    Raises:
        RemoteProtocolError: the bytes are no such response, or others follow it.
    """
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, offset)
        position = offset + 4
        if _has_tagged_header(cls, version):
            count = buffer[position]
            position += 1
            if count:
                position = skip_tags(memoryview(buffer), position, count, len(buffer))
    except (StructError, IndexError, ValueError) as error:
        raise RemoteProtocolError(f"malformed response header: {error or 'it ends too early'}") from None
    message, end = decoder(cls, version)(buffer, position)
    if end != len(buffer):
        raise RemoteProtocolError(f"{len(buffer) - end} bytes follow {cls.__name__} v{version}")
    return correlation_id, message


_CORRELATION_ID: Final = Layout(">i")


def _has_tagged_header(message: Message | type[Message], version: int) -> bool:
    api_key = message.__schema__.api_key
    return api_key != ApiKey.API_VERSIONS and API_TABLE[api_key].is_flexible(version)


def _interleave(out: bytearray, ranges: Ranges) -> list[bytearray | memoryview | FileRange]:
    """Cut ``out`` at ``ranges``, which are in ascending order, and insert the pieces that were not copied."""
    view = memoryview(out)
    pieces: list[bytearray | memoryview | FileRange] = []
    start = 0
    for offset, piece in ranges:
        if offset > start:
            pieces.append(view[start:offset])
        if piece.size:
            pieces.append(piece.data if isinstance(piece, UncopiedRecords) else piece)
        start = offset
    if start < len(out):
        pieces.append(view[start:])
    return pieces
