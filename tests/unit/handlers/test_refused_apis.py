"""APIs that a broker with ZooKeeper refuses as Kafka does, and our own APIs, which only our brokers see."""

from dataclasses import dataclass

import pytest

from cluster.handlers import api_versions, consumer_group_describe, consumer_group_heartbeat
from cluster.handlers.registry import Registry
from cluster.handlers.served import served_apis
from cluster.peers.peer_requests import SOFTWARE_NAME
from tests.unit.handlers.calls import Broker, KeptCall
from wire.apis import FIRST_OWN_KEY, ApiKey
from wire.errors import Error
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


@dataclass(eq=False)
class Serving(Broker):
    served: Registry
    session_watch: object


def answer_to(begin, request, version=0, session_watch=None):
    call = KeptCall(Serving(served_apis(), session_watch), request, version)
    begin(call)
    return call.responses[0]


def test_groups_of_kraft_are_refused():
    answer = answer_to(consumer_group_heartbeat.begin, ConsumerGroupHeartbeatRequest(group_id="g"))
    assert answer.error_code == Error.UNSUPPORTED_VERSION
    answer = answer_to(consumer_group_describe.begin, ConsumerGroupDescribeRequest(group_ids=["g", "h"]))
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        ("g", Error.UNSUPPORTED_VERSION),
        ("h", Error.UNSUPPORTED_VERSION),
    ]


@pytest.mark.parametrize(
    ("name", "version", "watches", "sees"),
    [
        (SOFTWARE_NAME, 3, True, {ApiKey.WATCH_SESSION, ApiKey.REACH_BROKER}),
        (SOFTWARE_NAME, 3, False, set()),
        ("apache-kafka-java", 4, True, set()),
        ("", 0, True, set()),
    ],
)
def test_our_own_apis_are_listed_to_our_own_brokers(name, version, watches, sees):
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    answer = answer_to(api_versions.begin, request, version, session_watch=object() if watches else None)
    listed = {each.api_key for each in answer.api_keys}
    assert {key for key in listed if key >= FIRST_OWN_KEY} == sees
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT in listed
