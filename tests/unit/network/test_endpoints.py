"""Kafka's listener strings, good and bad."""

import pytest

from cluster.network.endpoints import (
    Endpoint,
    EndpointError,
    SecurityProtocol,
    parse_advertised_listeners,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PLAINTEXT://:9092", Endpoint("PLAINTEXT", "", 9092)),
        ("plaintext://host.example:0", Endpoint("PLAINTEXT", "host.example", 0)),
        ("PLAINTEXT://[::1]:9092", Endpoint("PLAINTEXT", "::1", 9092)),
        ("SSL://0.0.0.0:1", Endpoint("SSL", "0.0.0.0", 1, SecurityProtocol.SSL)),
    ],
)
def test_an_endpoint_is_read_and_written(text: str, expected: Endpoint) -> None:
    assert parse_endpoint(text) == expected
    assert parse_endpoint(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host:9092",
        "PLAINTEXT://host",
        "PLAINTEXT://host:",
        "PLAINTEXT://host:65536",
        "PLAINTEXT://host:-1",
        "PLAINTEXT://host:٣",
        "PLAINTEXT://::1:9092",
        "://host:1",
        "CLIENTS://host:9092",
    ],
)
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(EndpointError):
        parse_endpoint(text)


def test_names_get_their_protocol_from_the_map() -> None:
    protocols = parse_protocol_map("internal:PLAINTEXT, OUTSIDE:sasl_ssl")
    endpoints = parse_listeners("INTERNAL://:1,OUTSIDE://:2", protocols)
    assert [endpoint.security_protocol.name for endpoint in endpoints] == ["PLAINTEXT", "SASL_SSL"]
    assert [protocol.is_sasl for protocol in protocols.values()] == [False, True]
    assert [protocol.is_encrypted for protocol in protocols.values()] == [False, True]


@pytest.mark.parametrize("text", ["A", "A:", ":PLAINTEXT", "A:PLAINTEXT,a:SSL", "A:TLS"])
def test_a_bad_map_is_refused(text: str) -> None:
    with pytest.raises(EndpointError):
        parse_protocol_map(text)


def test_listeners_have_distinct_names_and_ports() -> None:
    with pytest.raises(EndpointError, match="share a name"):
        parse_listeners("PLAINTEXT://:1,PLAINTEXT://:2")
    with pytest.raises(EndpointError, match="share a port"):
        parse_listeners("PLAINTEXT://:1,SSL://:1")
    with pytest.raises(EndpointError, match="at least one"):
        parse_listeners(" , ")
    assert len(parse_listeners("PLAINTEXT://:0,SSL://:0")) == 2
    assert len(parse_listeners("PLAINTEXT://127.0.0.1:1,SSL://[::1]:1")) == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_an_address_that_nobody_can_reach_is_not_advertised(host: str) -> None:
    with pytest.raises(EndpointError, match="nobody can connect"):
        parse_advertised_listeners(f"PLAINTEXT://{host}:9092")
