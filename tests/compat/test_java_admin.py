"""Apache Kafka's Java AdminClient: the calls that people make, and how unsupported ones are refused.

One virtual machine makes all calls in turn (java/AdminCalls.java); each row here is one of them.
"""

import subprocess
from pathlib import Path

import pytest

from tests.compat import matrix

PROGRAM = Path(__file__).parent / "java" / "AdminCalls.java"
DONE = "null"
"""The result of a successful call that returns nothing."""

ANSWERS = {
    "create validate": "3",
    "create": "3 x 3",
    "create config": "7200000",
    "create placed": "2 x 2",
    "list": "true",
    "describe": "[[2, 0], [0, 1]]",
    "describe id": "true",
    "describe operations": "8",
    "partitions": DONE,
    "topic config": "7200000 DYNAMIC_TOPIC_CONFIG",
    "topic config alter": DONE,
    "topic config append": DONE,
    "topic config altered": "3600000 DYNAMIC_TOPIC_CONFIG",
    "broker config": "1 DEFAULT_CONFIG",
    "broker config alter": DONE,
    "broker config altered": "2 DYNAMIC_BROKER_CONFIG",
    "broker config delete": DONE,
    "default config alter": DONE,
    "default config": "9999 DYNAMIC_DEFAULT_BROKER_CONFIG",
    "default config delete": DONE,
    "logger alter": DONE,
    "logger": "DEBUG DYNAMIC_BROKER_LOGGER_CONFIG",
    "logger delete": DONE,
    "cluster nodes": "[0, 1, 2]",
    "cluster controller": "true",
    "cluster id": "22",
    "cluster operations": "7",
    "features": "{} {}",
    "producers": "[9]",
    "offset earliest": "0 -1",
    "offset earliest local": "0 -1",
    "offset latest": "10 -1",
    "offset latest tiered": "-1 -1",
    "offset max timestamp": "6 1700000500000",
    "offset timestamp": "3 1700000003000",
    "offset late timestamp": "-1 -1",
    "offset committed": "10",
    "delete records": "4",
    "offset after deletion": "4 -1",
    "log directories": "3 3",
    "replica directory": "true",
    "elect preferred": "ElectionNotNeededException",
    "elect unclean": "ElectionNotNeededException",
    "elect unknown": "UnknownTopicOrPartitionException",
    "elect all": "true",
    "reassign": DONE,
    "reassigned": "[[0, 1, 2], [0, 1]]",
    "reassignments": "{}",
    "groups": "[Optional[Stable]]",
    "groups stable": "1",
    "groups empty": "0",
    "group": "Stable range instance 4 true",
    "group offsets": "OffsetAndMetadata{offset=7, leaderEpoch=null, metadata='seven'}",
    "group remove member": DONE,
    "group offsets alter": DONE,
    "group offsets altered": "5",
    "group offsets delete": DONE,
    "group offsets left": "true",
    "group delete": DONE,
    "group unknown": "Dead",
    "delete": DONE,
    "delete id": DONE,
    "describe scram": "{}",
    "describe quotas": "{}",
    "alter quotas": "null",
    "list transactions": "[]",
    "abort transaction": "null",
    "transactions": "begun",
}

FAILURES = {
    "create again": "TopicExistsException: Topic '{made}' already exists.",
    "create replicas": "InvalidReplicationFactorException: Replication factor: 9 larger than available brokers: 3.",
    "create partitions": "InvalidPartitionsException: Number of partitions must be larger than 0.",
    "create name": "InvalidTopicException: Topic name is invalid: 'no such name'",
    "create setting": "InvalidConfigurationException: retention.ms=long: expected a number",
    "create placement": "InvalidReplicaAssignmentException: Duplicate replica",
    "describe unknown": "UnknownTopicOrPartitionException: ",
    "describe unknown id": "UnknownTopicIdException: ",
    "partitions fewer": "InvalidPartitionsException: Topic currently has 4 partitions",
    "topic config wrong": "InvalidConfigurationException: retention.ms=long: expected a number",
    "topic config unknown": "InvalidConfigurationException: no.such=1",
    "topic config nowhere": "UnknownTopicOrPartitionException: the topic {made}x does not exist",
    "broker config read-only": "InvalidRequestException: broker.rack=r: expected no change at run time",
    "broker config host": "InvalidConfigurationException: max.connections.per.ip.overrides=nobody.invalid:5: ",
    "logger wrong": "InvalidConfigurationException: a level is one of TRACE",
    "delete records past the end": "OffsetOutOfRangeException: ",
    "reassign nowhere": "InvalidReplicaAssignmentException: Replica assignment has brokers that are not alive",
    "reassign cancel": "NoReassignmentInProgressException: ",
    "group offsets alter active": "UnknownMemberIdException: ",
    "group delete active": "GroupNotEmptyException: ",
    "group offsets delete active": "GroupSubscribedToTopicException: ",
    "group delete again": "GroupIdNotFoundException: ",
    "delete unknown": "UnknownTopicOrPartitionException: ",
    "delete unknown id": "UnknownTopicIdException: ",
    "describe acls": "SecurityDisabledException: ",
    "create acls": "SecurityDisabledException: ",
    "delete acls": "SecurityDisabledException: ",
    "alter scram": "ResourceNotFoundException: ",
    "create token": "UnsupportedByAuthenticationException: Delegation Token requests are not allowed on PLAINTEXT",
    "describe token": "UnsupportedByAuthenticationException: Delegation Token requests are not allowed on PLAINTEXT",
    "describe transactions": "TransactionalIdNotFoundException: ",
}

REFUSED = {
    "quorum": "DESCRIBE_QUORUM",
    "unregister": "UNREGISTER_BROKER",
    "client metrics": "LIST_CLIENT_METRICS_RESOURCES",
}
"""The calls that are not served, with the missing API, which the client knows from ApiVersions."""


@pytest.fixture(scope="module")
def prefix() -> str:
    """The prefix of the names of this module's topics and group."""
    return f"admin-{matrix.RUN}"


@pytest.fixture(scope="module")
def calls(cluster, kafka_java, prefix) -> dict[str, str]:
    """The result of each call."""
    done = subprocess.run(
        [*kafka_java, str(PROGRAM), cluster.bootstrap_servers, prefix],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("call", ANSWERS)
def test_a_call_is_answered(calls, call: str) -> None:
    assert calls[call] == ANSWERS[call]


@pytest.mark.parametrize("call", FAILURES)
def test_a_wrong_call_fails_as_on_kafka(calls, prefix, call: str) -> None:
    assert calls[call].startswith("!" + FAILURES[call].format(made=f"{prefix}-made"))


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_not_served_is_refused_by_name(calls, call: str) -> None:
    assert (
        calls[f"refused {call}"] == f"!UnsupportedVersionException: The node does not support {REFUSED[call]}"
    )


def test_a_directory_that_is_none_takes_no_replica(calls) -> None:
    assert calls["alter directories"].startswith(
        ("!UnsupportedVersionException: ", "!LogDirNotFoundException: ")
    )


def test_every_call_has_its_row(calls) -> None:
    refused = {f"refused {call}" for call in REFUSED}
    assert set(calls) == {*ANSWERS, *FAILURES, *refused, "alter directories"}
