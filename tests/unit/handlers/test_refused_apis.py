"""APIs that a broker with ZooKeeper refuses as Kafka does, and our own that only our brokers see."""

from types import SimpleNamespace

import pytest

from cluster.handlers import api_versions, consumer_group_describe, consumer_group_heartbeat
from cluster.handlers.served import served_apis
from cluster.peers.peer_requests import SOFTWARE_NAME
from wire.apis import FIRST_OWN_KEY, ApiKey
from wire.errors import Error
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def answer_to(begin, request, version=0, session_watch=None):
    answers = []
    begin(
        SimpleNamespace(
            request=request,
            version=version,
            respond=answers.append,
            slot=SimpleNamespace(connection=SimpleNamespace()),
            broker=SimpleNamespace(served=served_apis(), session_watch=session_watch),
        )
    )
    return answers[0]


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
