"""Limits of single hosts: how they are written, and how their names are resolved."""

import pytest

from cluster.network.address_limits import AddressLimitError, parse_address_limits, resolve_address_limits

HOSTS = {"many.example": ["10.0.0.1", "fd00::1"], "one.example": ["10.0.0.2"]}


def look_up(host: str) -> list[str]:
    if host not in HOSTS:
        raise OSError(-2, "Name or service not known")
    return HOSTS[host]


def test_hosts_and_limits_are_read() -> None:
    assert parse_address_limits("") == {}
    assert parse_address_limits("a.example:10, [::1]:5,127.0.0.1:0") == {
        "a.example": 10,
        "::1": 5,
        "127.0.0.1": 0,
    }


@pytest.mark.parametrize("text", ["host", "host:", ":5", "host:-1", "host:many"])
def test_what_is_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(AddressLimitError, match="is not host:count"):
        parse_address_limits(text)


def test_a_name_has_its_limit_on_each_of_its_addresses() -> None:
    assert resolve_address_limits("many.example:3, one.example:4", look_up) == {
        "10.0.0.1": 3,
        "fd00::1": 3,
        "10.0.0.2": 4,
    }


def test_an_address_is_written_as_peers_are() -> None:
    assert resolve_address_limits("[0:0:0:0:0:0:0:1]:2", look_up) == {"::1": 2}


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(AddressLimitError, match=r"the host 'nobody\.example' is not known: Name or service"):
        resolve_address_limits("one.example:1,nobody.example:2", look_up)
