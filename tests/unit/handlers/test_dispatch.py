"""From a frame to a handler and back: routes, versions, failures, and who gets to see them."""

from struct import unpack_from

import pytest
import trio

from cluster.handlers import api_versions
from cluster.handlers.call import ApiCall
from cluster.handlers.dispatch import Dispatcher
from cluster.handlers.registry import Registry
from wire.apis import API_TABLE, ApiKey
from wire.errors import ApiError, Error, RemoteProtocolError, UnsupportedVersionError
from wire.frames import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Connection:
    peer = "192.0.2.1:5000"
    listener_name = "PLAINTEXT"
    client_software_name = ""
    client_software_version = ""


class Slot:
    def __init__(self):
        self.connection = Connection()
        self.answer = None
        self.closed = False

    def complete(self, answer):
        assert self.answer is None
        self.answer = bytes(answer)

    def close(self):
        self.closed = True


class Broker:
    def __init__(self, registry, nursery=None):
        self.served = registry
        self.nursery = nursery
        self.throttling = None


def frame_of(message, version, correlation_id=7):
    return memoryview(bytes(encode_request(message, version, correlation_id, "test")))[4:]


def answer_to(slot, cls, version):
    (size,) = unpack_from(">i", slot.answer)
    assert size == len(slot.answer) - 4
    correlation_id, response = decode_response(cls, version, slot.answer, 4)
    assert correlation_id == 7
    return response


def served():
    registry = Registry()
    api_versions.register(registry)
    return registry


def test_every_version_of_api_versions_lists_what_is_registered():
    registry = served()
    registry.add(ApiKey.HEARTBEAT, 1, 3, lambda call: None)
    for version in range(5):
        slot = Slot()
        request = ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7")
        Dispatcher(Broker(registry), registry).dispatch(frame_of(request, version), slot)
        response = answer_to(slot, ApiVersionsResponse, version)
        assert response.error_code == 0
        listed = [(each.api_key, each.min_version, each.max_version) for each in response.api_keys]
        assert listed == [(ApiKey.HEARTBEAT, 1, 3), (ApiKey.API_VERSIONS, 0, 4)]
        assert slot.connection.client_software_name == ("kcat" if version >= 3 else "")


def test_a_version_of_api_versions_that_is_not_served_is_answered_in_version_0():
    slot = Slot()
    frame = bytearray(frame_of(ApiVersionsRequest(), 0))
    frame[2:4] = (99).to_bytes(2, "big")
    frame.append(0)  # the header of that version is taken for a flexible one
    Dispatcher(Broker(served()), served()).dispatch(memoryview(frame), slot)
    response = answer_to(slot, ApiVersionsResponse, 0)
    assert response.error_code == Error.UNSUPPORTED_VERSION
    (only,) = response.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (ApiKey.API_VERSIONS, 0, 4)


@pytest.mark.parametrize("name", ["", "ka fka", "-x", "x" + chr(0)])
def test_a_software_name_that_is_none_is_refused(name):
    slot = Slot()
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    Dispatcher(Broker(served()), served()).dispatch(frame_of(request, 3), slot)
    assert answer_to(slot, ApiVersionsResponse, 3).error_code == Error.INVALID_REQUEST


def test_what_is_not_served_closes_the_connection():
    dispatcher = Dispatcher(Broker(served()), served())
    with pytest.raises(RemoteProtocolError, match="API key 12 is not served"):
        dispatcher.dispatch(frame_of(HeartbeatRequest(), 0), Slot())


def test_a_version_that_is_not_served_closes_the_connection():
    registry = served()
    registry.add(ApiKey.HEARTBEAT, 1, 2, lambda call: None)
    for version in (0, 3):
        with pytest.raises(UnsupportedVersionError, match=f"HEARTBEAT version {version} is not served"):
            Dispatcher(Broker(registry), registry).dispatch(frame_of(HeartbeatRequest(), version), Slot())


def test_bytes_behind_a_request_are_ignored():
    # librdkafka writes three too many into Metadata 9 and later when it asks for all topics.
    calls = []
    registry = Registry()
    registry.add(ApiKey.API_VERSIONS, 0, 3, calls.append)
    frame = memoryview(bytes(frame_of(ApiVersionsRequest(), 0)) + b"xyz")
    Dispatcher(Broker(registry), registry).dispatch(frame, Slot())
    assert len(calls) == 1


def test_a_synchronous_handler_begins_within_the_call():
    calls = []
    registry = served()
    registry.add(ApiKey.HEARTBEAT, 0, 4, calls.append)
    slot = Slot()
    Dispatcher(Broker(registry), registry).dispatch(frame_of(HeartbeatRequest(group_id="g"), 4), slot)
    (call,) = calls
    assert (call.request.group_id, call.version, call.listener_name) == ("g", 4, "PLAINTEXT")
    call.respond(HeartbeatResponse(error_code=3))
    assert answer_to(slot, HeartbeatResponse, 4).error_code == 3


def test_a_failure_that_a_handler_lets_through_drops_the_connection():
    def fail(call: ApiCall) -> None:
        raise ApiError(Error.NOT_CONTROLLER)

    registry = served()
    registry.add(ApiKey.HEARTBEAT, 0, 4, fail)
    slot = Slot()
    Dispatcher(Broker(registry), registry).dispatch(frame_of(HeartbeatRequest(), 0), slot)
    assert slot.closed
    assert slot.answer is None


def test_a_bug_in_a_handler_is_not_caught():
    def fail(call: ApiCall) -> None:
        raise ZeroDivisionError

    registry = served()
    registry.add(ApiKey.HEARTBEAT, 0, 4, fail)
    with pytest.raises(ZeroDivisionError):
        Dispatcher(Broker(registry), registry).dispatch(frame_of(HeartbeatRequest(), 0), Slot())


def test_an_asynchronous_handler_answers_from_a_task():
    async def handle(call):
        await trio.lowlevel.checkpoint()
        if call.request.group_id == "bad":
            raise ApiError(Error.NOT_CONTROLLER)
        return HeartbeatResponse(error_code=5)

    async def main():
        registry = served()
        registry.add_async(ApiKey.HEARTBEAT, 0, 4, handle)
        good, bad = Slot(), Slot()
        async with trio.open_nursery() as nursery:
            dispatcher = Dispatcher(Broker(registry, nursery), registry)
            dispatcher.dispatch(frame_of(HeartbeatRequest(), 0), good)
            dispatcher.dispatch(frame_of(HeartbeatRequest(group_id="bad"), 0), bad)
            assert good.answer is None
        assert answer_to(good, HeartbeatResponse, 0).error_code == 5
        assert bad.closed

    trio.run(main)


def test_a_registry_takes_an_api_once_and_within_its_versions():
    registry = served()
    with pytest.raises(ValueError, match="API_VERSIONS is registered twice"):
        api_versions.register(registry)
    top = API_TABLE[ApiKey.HEARTBEAT].max_version
    with pytest.raises(ValueError, match="outside"):
        registry.add(ApiKey.HEARTBEAT, 0, top + 1, lambda call: None)
