"""Every message is read back as it was written, in each version; and each byte of it counts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wire.strategies import (
    ALL_VERSIONS,
    FORMATS,
    all_messages,
    instances,
    property_settings,
    versions,
)
from wire.codec import decode, decoder, encode
from wire.errors import RemoteProtocolError
from wire.formats.versioned import decode_versioned, encode_versioned
from wire.frames import decode_request, decode_response, encode_request, encode_response
from wire.schema import Data, Message, Request, Response


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS)
def test_decoding_gives_back_what_was_encoded(cls: type[Message], version: int) -> None:
    @property_settings(12)
    @given(instances(cls, version))
    def round_trip(message: Any) -> None:
        encoded = encode(message, version)
        assert decode(cls, version, encoded) == message
        assert encode(decode(cls, version, bytes(encoded)), version) == encoded

    round_trip()


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS)
def test_the_default_message_survives(cls: type[Message], version: int) -> None:
    encoded = encode(cls(), version)
    assert decode(cls, version, encoded) == cls()


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS)
def test_a_message_is_read_the_same_in_any_place_and_refused_cut_or_trailed(
    cls: type[Message], version: int
) -> None:
    @property_settings(3)
    @given(instances(cls, version))
    def three_ways(message: Any) -> None:
        encoded = bytes(encode(message, version))
        assert decode(cls, version, memoryview(b"before" + encoded), 6) == message
        with pytest.raises(RemoteProtocolError, match="follow"):
            decode(cls, version, encoded + b"\0")
        step = max(1, len(encoded) // 50)
        for cut in range(0, len(encoded), step):
            with pytest.raises(RemoteProtocolError):
                decode(cls, version, encoded[:cut])

    three_ways()


@pytest.mark.parametrize(("cls", "version"), ALL_VERSIONS)
def test_frames_carry_every_message(cls: type[Message], version: int) -> None:
    if issubclass(cls, Request):
        frame = encode_request(cls(), version, 7, "me")
        header, request = decode_request(memoryview(frame)[4:])
        nameless = header.api_key == 7 and version == 0
        assert (header.api_version, header.correlation_id) == (version, 7)
        assert header.client_id == (None if nameless else "me")
        assert request == cls()
    elif issubclass(cls, Response):
        response_frame = encode_response(cls(), version, 7)
        assert isinstance(response_frame, bytearray)
        assert decode_response(cls, version, response_frame, 4) == (7, cls())
        frame = response_frame
    else:
        assert cls in FORMATS
        return
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@pytest.mark.parametrize("cls", FORMATS)
def test_formats_carry_their_version(cls: type[Data]) -> None:
    version = cls.__schema__.versions.last
    encoded = encode_versioned(cls(), version)
    assert encoded[:2] == version.to_bytes(2, "big")
    assert decode_versioned(cls, encoded) == cls()


_CLASSES: list[tuple[Any, Any]] = [(cls, version) for cls in all_messages() for version in versions(cls)]


@property_settings(300)
@given(st.data())
def test_garbage_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    cls, version = data.draw(st.sampled_from(_CLASSES))
    garbage = data.draw(st.binary(max_size=200))
    try:
        decoder(cls, version)(garbage, 0)
    except RemoteProtocolError:
        pass


@property_settings(300)
@given(st.data())
def test_a_flipped_byte_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    cls, version = data.draw(st.sampled_from(_CLASSES))
    encoded = encode(data.draw(instances(cls, version)), version)
    if not encoded:
        return
    for _ in range(20):
        position = data.draw(st.integers(0, len(encoded) - 1))
        before = encoded[position]
        encoded[position] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        try:
            decode(cls, version, bytes(encoded))
        except RemoteProtocolError:
            pass
        encoded[position] = before
