"""Quotas at work: what is charged, what the answer says, and that the connection's next requests wait meanwhile."""

import pytest
import trio
import trio.testing

from cluster.handlers.dispatch import Dispatcher
from cluster.handlers.mutation_quota import MutationAllowance
from cluster.handlers.registry import Registry
from cluster.handlers.throttling import Throttling
from cluster.security.principal import KafkaPrincipal
from cluster.security.quotas.client_quotas import ClientQuotas, QuotaType
from cluster.security.quotas.entities import QuotaEntity
from tests.unit.network.test_connection import ListConnection
from timing.timing_wheel import Timer
from wire.apis import API_TABLE, ApiKey
from wire.errors import ApiError, Error
from wire.frames import decode_response, encode_request
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

ALICE = KafkaPrincipal("User", "alice")


class Clock:
    """Trio's clock, plus the time that requests take."""

    def __init__(self):
        self.ahead_s = 0.0

    def monotonic(self):
        return trio.current_time() + self.ahead_s


class Broker:
    def __init__(self, limits):
        self.clock = Clock()
        self.timer = Timer()
        self.quotas = ClientQuotas(11, 1000, 11, 1000)
        self.quotas.set_limits(QuotaEntity("alice"), limits)
        self.throttling = Throttling(self.quotas, self.clock, self.timer)
        self.authorizer = None
        self.nursery = None
        self.calls = []
        self.takes_s = 0.0
        self.registry = Registry()
        for key in (ApiKey.PRODUCE, ApiKey.HEARTBEAT, ApiKey.LEADER_AND_ISR, ApiKey.CREATE_TOPICS):
            api = API_TABLE[key]
            self.registry.add(key, api.min_version, api.max_version, self.begin)
        self.dispatcher = Dispatcher(self, self.registry)

    def begin(self, call):
        self.calls.append(call)
        self.clock.ahead_s += self.takes_s
        if call.header.api_key == ApiKey.PRODUCE and not call.request.acks:
            call.skip()
        else:
            call.respond(API_TABLE[ApiKey(call.header.api_key)].response())

    def connect(self):
        connection = ListConnection()
        connection._dispatch = self.dispatcher.dispatch
        connection.principal = ALICE
        return connection


def in_broker(limits):
    def run(main):
        async def around():
            broker = Broker(limits)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(broker.timer.run)
                await main(broker, broker.connect())
                nursery.cancel_scope.cancel()

        trio.run(around, clock=trio.testing.MockClock(autojump_threshold=0))

    return run


def produce(size, acks=1):
    data = PartitionProduceData(index=0, records=bytes(size))
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def receive(connection, *requests, version=3, client_id="c"):
    """Deliver requests in one receive; return those that have not begun yet."""
    frames = [memoryview(bytes(encode_request(each, version, 1, client_id)))[4:] for each in requests]
    connection._begin_requests(lambda: frames.pop(0) if frames else None)
    return frames


def answers(connection, cls, version=3):
    found = []
    for answer in connection.sent:
        for part in answer if isinstance(answer, list) else [answer]:
            found.append(decode_response(cls, version, bytes(part), 4)[1])
    return found


def test_a_produce_over_quota_is_answered_at_once_and_nothing_behind_it_is_begun():
    @in_broker({QuotaType.PRODUCE: 1000.0})
    async def _(broker, connection):
        left = receive(connection, produce(6000), produce(6000), produce(10), produce(10))
        assert len(broker.calls) == 2
        assert len(left) == 2
        first, second = answers(connection, ProduceResponse)
        assert first.throttle_time_ms == 0
        assert 1000 < second.throttle_time_ms < 3000
        assert connection.waits_for_room
        await trio.sleep(second.throttle_time_ms / 1000 - 0.01)
        assert connection.rooms == 0
        await trio.sleep(0.02)
        assert connection.rooms == 1
        assert connection.has_room()


def test_a_produce_without_acks_is_charged_too():
    @in_broker({QuotaType.PRODUCE: 1000.0})
    async def _(broker, connection):
        assert len(receive(connection, produce(20_000, acks=0), produce(10, acks=0))) == 1
        assert connection.sent == []


def test_others_are_not_held_back():
    @in_broker({QuotaType.PRODUCE: 1000.0})
    async def _(broker, connection):
        receive(connection, produce(20_000))
        assert not connection.has_room()
        other = broker.connect()
        other.principal = KafkaPrincipal("User", "bob")
        assert receive(other, produce(20_000), produce(20_000)) == []
        assert [each.throttle_time_ms for each in answers(other, ProduceResponse)] == [0, 0]


def test_the_time_that_requests_take_is_charged():
    @in_broker({QuotaType.REQUEST: 1.0})
    async def _(broker, connection):
        broker.takes_s = 0.06
        assert len(receive(connection, *[HeartbeatRequest(group_id="g")] * 4)) == 2
        first, second = answers(connection, HeartbeatResponse)
        assert first.throttle_time_ms == 0
        assert 0 < second.throttle_time_ms <= 1000


def test_requests_of_brokers_are_exempt():
    @in_broker({QuotaType.REQUEST: 1.0})
    async def _(broker, connection):
        broker.takes_s = 10.0
        assert receive(connection, *[LeaderAndIsrRequest()] * 3) == []
        assert len(answers(connection, LeaderAndIsrResponse)) == 3
        assert connection.has_room()


@pytest.mark.parametrize("strict", [True, False])
def test_mutations_over_quota_are_refused_or_held_back(strict):
    @in_broker({QuotaType.CONTROLLER_MUTATION: 1.0})
    async def _(broker, connection):
        receive(connection, API_TABLE[ApiKey.CREATE_TOPICS].request())
        (call,) = broker.calls
        allowance = MutationAllowance(call, strict=strict)
        allowance.take(12)
        if strict:
            with pytest.raises(ApiError) as caught:
                allowance.take(1)
            assert caught.value.error is Error.THROTTLING_QUOTA_EXCEEDED
        else:
            allowance.take(1)
        allowance.settle()
        assert call.throttle_ms == (1000 if strict else 2000)
        assert not connection.has_room()
