"""What the doctor finds out about clusters that are reachable in part, or not at all."""

import pytest
import trio

from ottla.client.errors import BrokerUnreachable
from ottla.commands.diagnosis.connection_checks import Doctor
from wire.errors import Error
from wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Place:
    """The broker at an address, and its view of the cluster."""

    def __init__(self, broker_id, *brokers, controller=0, cluster="c", replicas=()):
        self.broker_id = broker_id
        self.metadata = MetadataResponse(
            cluster_id=cluster,
            controller_id=controller,
            brokers=[
                MetadataResponseBroker(node_id=number, host=host, port=port) for number, host, port in brokers
            ],
            topics=[
                MetadataResponseTopic(
                    name="t",
                    partitions=[
                        MetadataResponsePartition(partition_index=number, replica_nodes=list(ids))
                        for number, ids in enumerate(replicas)
                    ],
                )
            ],
        )


class FakeConnection:
    def __init__(self, place):
        self.place = place

    async def __aenter__(self):
        await trio.lowlevel.checkpoint()
        if isinstance(self.place, Exception):
            raise self.place
        return self

    async def __aexit__(self, *_):
        await trio.lowlevel.checkpoint()

    async def request(self, message, *, timeout_s):
        await trio.lowlevel.checkpoint()
        if isinstance(message, MetadataRequest):
            return self.place.metadata
        (resource,) = message.resources
        if resource.resource_name != str(self.place.broker_id):
            return DescribeConfigsResponse(results=[DescribeConfigsResult(error_code=Error.INVALID_REQUEST)])
        value = DescribeConfigsResourceResult(name="broker.id", value=str(self.place.broker_id))
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[value])])


def examine(places, *bootstrap, names=None, other=None):
    """Run the doctor where only ``places`` answer; a place that is an exception is raised."""

    async def resolve(host, port):
        await trio.lowlevel.checkpoint()
        found = (names or {}).get(host, host)
        if found is None:
            raise OSError(-2, "Name or service not known")
        return [found]

    def connect(address):
        return FakeConnection(places.get(address, BrokerUnreachable(f"{address}: Connection refused")))

    async def ask_other(host, port):
        await trio.lowlevel.checkpoint()
        return other

    return trio.run(Doctor(connect, resolve, ask_other).examine, list(bootstrap))


def wrongs(diagnosis):
    return [
        (finding.subject, finding.text, finding.advice)
        for finding in diagnosis.findings
        if not finding.is_well
    ]


def test_a_cluster_that_is_well():
    brokers = [(0, "h0", 1), (1, "h1", 1)]
    diagnosis = examine({("h0", 1): Place(0, *brokers), ("h1", 1): Place(1, *brokers)}, ("h0", 1))
    assert diagnosis.is_well
    assert [broker.broker_id for broker in diagnosis.brokers] == [0, 1]


def test_a_name_that_nobody_knows():
    ((subject, text, advice),) = wrongs(examine({}, ("typo", 9092), names={"typo": None}))
    assert subject == "bootstrap typo:9092"
    assert "does not resolve" in text
    assert "is the name right?" in advice


def test_nobody_there():
    ((subject, text, advice),) = wrongs(examine({}, ("h0", 1)))
    assert subject == "bootstrap h0:1"
    assert "refused" in text
    assert "running" in advice


def test_a_container_name_does_not_resolve():
    brokers = [(0, "kafka-0", 1)]
    ((subject, text, advice),) = wrongs(
        examine({("h0", 1): Place(0, *brokers)}, ("h0", 1), names={"kafka-0": None})
    )
    assert subject == "broker 0 at kafka-0:1"
    assert "does not resolve" in text
    assert "advertised.listeners of broker 0" in advice


def test_a_private_address_is_recognised():
    brokers = [(0, "kafka-0", 1)]
    ((_, text, advice),) = wrongs(
        examine({("h0", 1): Place(0, *brokers)}, ("h0", 1), names={"kafka-0": "172.18.0.3"})
    )
    assert "172.18.0.3" in text
    assert "container network" in advice


def test_localhost_is_advertised_to_others():
    brokers = [(0, "localhost", 1)]
    found = wrongs(examine({("h0", 1): Place(0, *brokers)}, ("h0", 1), names={"localhost": "127.0.0.1"}))
    assert [subject for subject, _, _ in found] == [
        "broker 0 advertises localhost:1",
        "broker 0 at localhost:1",
    ]
    assert all("advertised.listeners" in advice for _, _, advice in found)


def test_an_address_for_anywhere_is_advertised():
    brokers = [(0, "0.0.0.0", 1)]
    place = Place(0, *brokers)
    ((_, text, _),) = wrongs(examine({("h0", 1): place, ("0.0.0.0", 1): place}, ("h0", 1)))
    assert "no address" in text


def test_two_brokers_advertise_one_address():
    brokers = [(0, "h0", 1), (1, "h0", 1)]
    texts = [text for _, text, _ in wrongs(examine({("h0", 1): Place(0, *brokers)}, ("h0", 1)))]
    assert texts == [
        "so does broker 0: clients reach one of them for both",
        "another broker answers there",
    ]


def test_a_port_leads_to_the_wrong_broker():
    brokers = [(0, "h0", 1), (1, "h0", 2)]
    places = {("h0", 1): Place(0, *brokers), ("h0", 2): Place(0, *brokers)}
    ((subject, text, _),) = wrongs(examine(places, ("h0", 1)))
    assert (subject, text) == ("broker 1 at h0:2", "another broker answers there")


def test_bootstrap_servers_of_two_clusters():
    places = {
        ("a", 1): Place(0, (0, "a", 1), cluster="one"),
        ("b", 1): Place(0, (0, "a", 1), cluster="two"),
    }
    assert any("different clusters" in text for _, text, _ in wrongs(examine(places, ("a", 1), ("b", 1))))


def test_brokers_that_disagree():
    places = {("a", 1): Place(0, (0, "a", 1), (1, "b", 1)), ("b", 1): Place(1, (1, "b", 1), controller=1)}
    assert any("disagree" in text for _, text, _ in wrongs(examine(places, ("a", 1), ("b", 1))))


def test_no_controller():
    place = Place(0, (0, "a", 1), controller=-1)
    assert any("no controller" in text for _, text, _ in wrongs(examine({("a", 1): place}, ("a", 1))))


@pytest.mark.parametrize(
    ("other", "expected"),
    [("TLS", "speaks TLS"), ("ZooKeeper", "a ZooKeeper answers"), (None, "closed the connection")],
)
def test_what_closes_the_connection(other, expected):
    closed = BrokerUnreachable("a:1 closed the connection instead of answering")
    ((_, text, _),) = wrongs(examine({("a", 1): closed}, ("a", 1), other=other))
    assert expected in text


def test_an_http_server():
    answer = BrokerUnreachable("a:1 is no Kafka broker: its answer has length 1213486160")
    ((_, text, _),) = wrongs(examine({("a", 1): answer}, ("a", 1)))
    assert "HTTP server" in text


def test_a_listener_that_wants_a_login():
    class Closing(FakeConnection):
        async def request(self, message, *, timeout_s):
            await trio.lowlevel.checkpoint()
            raise BrokerUnreachable("a:1 closed the connection")

    def connect(address):
        return Closing(None)

    async def resolve(host, port):
        await trio.lowlevel.checkpoint()
        return [host]

    diagnosis = trio.run(Doctor(connect, resolve).examine, [("a", 1)])
    ((_, _, advice),) = wrongs(diagnosis)
    assert "SASL" in advice


def test_a_broker_that_holds_replicas_and_is_registered_nowhere():
    place = Place(0, (0, "h0", 1), replicas=[(0, 7), (7,), (0,)])
    ((subject, text, advice),) = wrongs(examine({("h0", 1): place}, ("h0", 1)))
    assert subject == "broker 7"
    assert text == "registered nowhere, but holds 2 replicas (t-0, t-1)"
    assert "--remove-brokers 7" in advice
