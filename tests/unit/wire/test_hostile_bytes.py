"""False lengths, invalid text, bad sizes of tagged fields: refused as the peer's fault, without allocating for them."""

import tracemalloc

import pytest

from wire.apis import ENTRIES_MAX
from wire.codec import decode, decoder, encode
from wire.errors import RemoteProtocolError
from wire.messages.alter_client_quotas import AlterClientQuotasResponse, EntryDataResponse
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.fetch import FetchResponse
from wire.messages.metadata import MetadataRequest, MetadataResponse
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from wire.messages.produce import ProduceRequest
from wire.messages.sync_group import SyncGroupRequest
from wire.schema import Message

HUGE = "ffffffff7f"  # the largest unsigned varint that five bytes can hold
CASES: list[tuple[str, type[Message], int, str, str]] = [
    ("negative count", ProduceRequest, 3, "ffff 0001 00000000 ffffffff", "topic_data may not be null"),
    ("huge count", ProduceRequest, 3, "ffff 0001 00000000 7fffffff", "claims 2147483647 elements"),
    ("count that just cannot fit", MetadataRequest, 1, "00000002 0000 00", "claims 2 elements"),
    ("huge compact count", ProduceRequest, 9, f"00 0001 00000000 {HUGE}", "claims 34359738366 elements"),
    ("null compact array", ProduceRequest, 9, "00 0001 00000000 00", "topic_data may not be null"),
    (
        "huge records",
        ProduceRequest,
        3,
        "ffff 0001 00000000 00000001 000161 00000001 00000000 7fffffff",
        "too early",
    ),
    (
        "huge compact records",
        ProduceRequest,
        9,
        f"00 0001 00000000 02 0261 02 00000000 {HUGE} 00",
        "too early",
    ),
    ("negative string", MetadataRequest, 0, "00000001 ffff", "name may not be null"),
    ("string past the end", MetadataRequest, 0, "00000001 7fff 6161", "too early"),
    ("string that is not UTF-8", MetadataRequest, 0, "00000001 0002 c328", "utf-8"),
    ("surrogates", MetadataRequest, 0, "00000001 0003 eda080", "utf-8"),
    ("null compact string", ApiVersionsRequest, 3, "00 0261 00", "a string that may not be null"),
    ("string longer than the limit", ApiVersionsRequest, 3, "818002" + "61" * 33000, "longer than 32767"),
    (
        "nullable string longer than the limit",
        MetadataRequest,
        12,
        "02" + "00" * 16 + "818002",
        "string is too long",
    ),
    ("varint of six bytes", ApiVersionsRequest, 3, "ffffffffff01 00", "longer than 5 bytes"),
    ("varint that never ends", ApiVersionsRequest, 3, "ffff", "too early"),
    ("tag past the end", ApiVersionsRequest, 3, "0261 0261 01 05 7f", "too early"),
    ("tags past the end", ApiVersionsRequest, 3, f"0261 0261 {HUGE}", "too early"),
    (
        "known tag of another size",
        ApiVersionsResponse,
        3,
        "0000 01 00000000 01 01 07 0000000000000000",
        "another size",
    ),
    (
        "known tag past the end",
        ApiVersionsResponse,
        3,
        "0000 01 00000000 01 01 09 0000000000000000",
        "too early",
    ),
    (
        "huge int32 array",
        OffsetFetchRequest,
        1,
        "000167 00000001 000174 20000000 00000000",
        "claims 536870912",
    ),
    ("negative int32 array", OffsetFetchRequest, 1, "000167 00000001 000174 fffffffe", "may not be null"),
    (
        "negative bytes",
        SyncGroupRequest,
        0,
        "000167 00000000 00016d 00000001 000161 80000000",
        "may not be null",
    ),
]


@pytest.mark.parametrize(
    ("cls", "version", "text", "reason"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_lies_are_refused(cls: type[Message], version: int, text: str, reason: str) -> None:
    hostile = bytes.fromhex(text)
    decoder(cls, version)  # compiled before memory is counted
    for buffer in (hostile, memoryview(hostile)):
        tracemalloc.start()
        try:
            with pytest.raises(RemoteProtocolError, match=reason):
                decode(cls, version, buffer)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 200_000


def test_the_error_names_message_version_and_place() -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"malformed MetadataRequest v1 near byte 4: .* claims 3 elements"
    ):
        decode(MetadataRequest, 1, bytes.fromhex("00000003"))


def test_nested_counts_are_checked_against_what_is_left() -> None:
    topics = "00000001 0000 000161 00" + "7fffffff"
    with pytest.raises(RemoteProtocolError, match="claims 2147483647"):
        decode(MetadataResponse, 1, bytes.fromhex("00000000 00000001" + topics))


def test_unknown_tags_are_stepped_over() -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="b")
    tags = "02 05 03 010203 c864 8001" + "00" * 128
    assert decode(ApiVersionsRequest, 3, bytes.fromhex("0261 0262" + tags)) == request
    many = "8101" + "".join(f"{tag:02x} 00" for tag in range(1, 128)) + "8001 00 8101 00"
    assert decode(ApiVersionsRequest, 3, bytes.fromhex("0261 0262" + many)) == request


def test_unknown_tags_are_stepped_over_beside_known_ones() -> None:
    tags = "03 00 01 01 03 01 01 7f 02 abcd"
    response = decode(ApiVersionsResponse, 3, bytes.fromhex("0000 01 00000000" + tags))
    assert response == ApiVersionsResponse(zk_migration_ready=True)


def test_a_non_canonical_varint_is_read() -> None:
    assert decode(ApiVersionsRequest, 3, bytes.fromhex("828000 61 0262 00")).client_software_name == "a"


def test_views_into_the_buffer_are_only_made_of_records() -> None:
    buffer = bytearray.fromhex("00 0001 00000000 02 0261 02 00000000 04 010203 00 00 00")
    request = decode(ProduceRequest, 9, memoryview(buffer))
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert not records.readonly
    buffer[-6] = 9
    assert bytes(records) == b"\x09\x02\x03"
    assert decode(FetchResponse, 0, bytes(4)) == FetchResponse()


@pytest.mark.parametrize("version", [0, 1])
def test_the_text_of_an_error_is_cut_to_what_a_string_holds(version: int) -> None:
    """The text quotes names, which can be as long as a string can be; the answer must still be sent."""
    text = "the topic " + "é" * 32_767 + " does not exist"
    entry = EntryDataResponse(error_code=42, error_message=text)
    answer = AlterClientQuotasResponse(entries=[entry])
    decoded = decode(AlterClientQuotasResponse, version, bytes(encode(answer, version)))
    assert text.startswith(decoded.entries[0].error_message)
    assert len(decoded.entries[0].error_message) > 8_000


def test_a_request_has_so_many_entries_and_no_more() -> None:
    def frame(count: int) -> bytes:
        return count.to_bytes(4, "big") + b"\x00\x01t" * count + b"\x01\x01\x01"

    assert len(decode(MetadataRequest, 8, frame(ENTRIES_MAX)).topics) == ENTRIES_MAX
    with pytest.raises(RemoteProtocolError, match="more than 90000 entries"):
        decode(MetadataRequest, 8, frame(ENTRIES_MAX + 1))
    nested = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])] * (ENTRIES_MAX + 1)
    )
    with pytest.raises(RemoteProtocolError, match="more than 90000 entries"):
        decode(OffsetFetchRequest, 1, bytes(encode(nested, 1)))
    numbers = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0] * (ENTRIES_MAX + 1))]
    )
    with pytest.raises(RemoteProtocolError, match="more than 90000 entries"):
        decode(OffsetFetchRequest, 1, bytes(encode(numbers, 1)))
    few = OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0] * 8)] * (ENTRIES_MAX // 2),
    )
    assert len(decode(OffsetFetchRequest, 1, bytes(encode(few, 1))).topics) == ENTRIES_MAX // 2
