"""Headers of every version, and responses that carry pieces of files."""

import struct
import tempfile

import pytest

from wire.apis import API_TABLE
from wire.errors import RemoteProtocolError, UnsupportedVersionError
from wire.file_range import FileRange
from wire.frames import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_request_pieces,
    encode_response,
)
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.controlled_shutdown import ControlledShutdownRequest
from wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from wire.messages.heartbeat import HeartbeatResponse
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.schema import Response
from wire.types import BrokerId
from wire.uncopied import UncopiedRecords

HEADERS = [
    ("0007 0000 0000002a", RequestHeader(7, 0, 42, None)),  # ControlledShutdown v0 has no client id
    ("0007 0001 0000002a 0001 63", RequestHeader(7, 1, 42, "c")),
    ("0000 0008 0000002a ffff", RequestHeader(0, 8, 42, None)),
    ("0000 0008 0000002a 0000", RequestHeader(0, 8, 42, "")),
    ("0000 0009 0000002a 0004 c3a9c3a9 00", RequestHeader(0, 9, 42, "éé")),
    (
        "0000 0009 0000002a ffff 01 00 02 aabb",
        RequestHeader(0, 9, 42, None),
    ),  # with a tag that we do not know
    ("0012 0063 fffffff6 ffff 00", RequestHeader(18, 99, -10, None)),  # a version that we do not know
]


@pytest.mark.parametrize(("text", "header"), HEADERS)
def test_headers_are_read_whole_and_refused_cut(text: str, header: RequestHeader) -> None:
    encoded = bytes.fromhex(text)
    assert decode_request_header(encoded) == (header, len(encoded))
    assert decode_request_header(memoryview(b"\xee" * 4 + encoded + b"body"), 4) == (header, 4 + len(encoded))
    for cut in range(len(encoded)):
        with pytest.raises(RemoteProtocolError):
            decode_request_header(encoded[:cut])


@pytest.mark.parametrize("key", [-1, 52, 9999])
def test_an_unknown_api_is_an_unsupported_version(key: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_request_header(struct.pack(">hhih", key, 0, 1, -1))


def test_an_unknown_version_has_a_header_but_no_body() -> None:
    frame = bytes.fromhex("0012 0063 00000001 ffff 00")
    assert decode_request_header(frame)[0].api_version == 99
    with pytest.raises(UnsupportedVersionError):
        decode_request(frame)
    with pytest.raises(UnsupportedVersionError):
        decode_request(bytes.fromhex("0012 ffff 00000001 ffff"))


@pytest.mark.parametrize("text", ["0000 0008 0000002a 7fff 6161", "0000 0008 0000002a 0001 ff"])
def test_bad_client_ids_are_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="header"):
        decode_request_header(bytes.fromhex(text))


def test_requests_carry_the_header_of_their_version() -> None:
    shutdown = ControlledShutdownRequest(broker_id=BrokerId(3))
    assert encode_request(shutdown, 0, 1, "me").hex(" ", 4) == "0000000c 00070000 00000001 00000003"
    assert encode_request(shutdown, 1, 1, "me").hex() == "00000010000700010000000100026d6500000003"
    assert encode_request(ApiVersionsRequest(), 3, 1, None)[4:].hex() == "0012000300000001ffff00010100"
    with pytest.raises(ValueError, match="client id"):
        encode_request(shutdown, 1, 1, "x" * 40_000)


def test_bytes_behind_a_request_are_refused() -> None:
    frame = encode_request(ApiVersionsRequest(), 0, 1, None)[4:] + b"\0"
    with pytest.raises(RemoteProtocolError, match="1 bytes follow"):
        decode_request(frame)


def encoded(response: Response, version: int) -> str:
    frame = encode_response(response, version, 5)
    assert isinstance(frame, bytearray)
    return frame.hex()


def test_responses_carry_the_header_of_their_version() -> None:
    assert encoded(HeartbeatResponse(), 3) == "0000000a00000005000000000000"
    assert encoded(HeartbeatResponse(), 4) == "0000000c000000050000000000000000"
    # A client of any age must be able to read this one, so its header is never tagged.
    assert encoded(ApiVersionsResponse(), 3) == "0000000c000000050000010000000000"
    assert decode_response(ApiVersionsResponse, 3, bytes.fromhex("00000005 0000 01 00000000 00"))[0] == 5
    assert decode_response(HeartbeatResponse, 4, bytes.fromhex("00000005 01 63 00 00000000 0000 00"))[0] == 5


@pytest.mark.parametrize("text", ["", "000000", "00000005", "00000005 01 63 7f 00000000 0000 00"])
def test_bad_response_headers_are_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_response(HeartbeatResponse, 4, bytes.fromhex(text))
    with pytest.raises(RemoteProtocolError, match="1 bytes follow"):
        decode_response(HeartbeatResponse, 0, bytes(7))


@pytest.mark.parametrize("version", [4, 11, 12, 16])
def test_file_ranges_stay_pieces_of_their_own(version: int) -> None:
    with tempfile.TemporaryFile() as file:
        first, second = FileRange(file, 100, 300), FileRange(file, 400, 5, hot=False)
        partitions = [
            PartitionData(partition_index=0, records=first),
            PartitionData(partition_index=1, records=b"bytes"),
            PartitionData(partition_index=2, records=second),
            PartitionData(partition_index=3, records=FileRange(file, 400, 0)),
        ]
        response = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])
        pieces = encode_response(response, version, 9)
    assert isinstance(pieces, list)
    assert [piece for piece in pieces if isinstance(piece, FileRange)] == [first, second]
    assert isinstance(pieces[1], FileRange)
    whole = b"".join(bytes(len(piece)) if isinstance(piece, FileRange) else piece for piece in pieces)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    correlation_id, decoded = decode_response(FetchResponse, version, whole, 4)
    assert correlation_id == 9
    records = [bytes(partition.records or b"") for partition in decoded.responses[0].partitions]
    assert records == [
        bytes(300),
        b"bytes",
        bytes(5),
        b"",
    ]


def test_a_response_without_file_ranges_is_one_buffer() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=b"bytes")])])
    assert isinstance(encode_response(response, 16, 9), bytearray)


def test_a_request_cannot_carry_a_file_range() -> None:
    with tempfile.TemporaryFile() as file:
        data = [TopicProduceData(partition_data=[PartitionProduceData(records=FileRange(file, 0, 1))])]
        with pytest.raises(ValueError, match="can only be sent"):
            encode_request(ProduceRequest(topic_data=data), 9, 1, None)


def test_records_of_a_request_are_not_copied() -> None:
    first, second = bytearray(b"first batch"), bytearray(b"the second batch" * 20)

    def request(*records: bytearray | UncopiedRecords) -> ProduceRequest:
        data = [PartitionProduceData(index=index, records=each) for index, each in enumerate(records)]
        return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)])

    for version in (3, 9):
        pieces = encode_request_pieces(
            request(UncopiedRecords(first), UncopiedRecords(second)), version, 1, "me"
        )
        assert b"".join(pieces) == encode_request(request(first, second), version, 1, "me")
        assert any(piece is first for piece in pieces)
        assert any(piece is second for piece in pieces)
    assert encode_request_pieces(request(), 9, 1, None) == [encode_request(request(), 9, 1, None)]


def test_a_header_is_printed_readably() -> None:
    assert repr(RequestHeader(1, 16, 7, "me")) == "<FETCH v16 #7 from 'me'>"
    assert repr(API_TABLE[1]) == "<Fetch 0-17>"
