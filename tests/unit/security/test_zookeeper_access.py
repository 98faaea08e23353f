"""Access to ZooKeeper from settings; contradictions are refused with the setting's name."""

import pytest

from cluster.zookeeper.protection import Protection, protection_of
from security.errors import SecurityConfigError
from security.zookeeper_access import OPEN, zookeeper_access

JAAS = "ottla.zookeeper.jaas.config"
LOGIN = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="p";'


def test_nothing_is_asked_for() -> None:
    assert zookeeper_access({}.get) == OPEN


def test_a_login() -> None:
    access = zookeeper_access({JAAS: LOGIN, "zookeeper.set.acl": "true"}.get)
    assert (access.user, access.password, access.protects, access.tls) == ("kafka", "p", True, None)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl"),
        ({"zookeeper.set.acl": "true", "zookeeper.ssl.client.enable": "true"}, "zookeeper.set.acl"),
        ({JAAS: "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"}, JAAS),
        ({JAAS: LOGIN.replace('password="p"', "")}, JAAS),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.crl.enable": "true"},
            "zookeeper.ssl.crl.enable",
        ),
        (
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.ssl.keystore.location": "/nowhere/broker.p12",
                "zookeeper.ssl.keystore.password": "p",
            },
            "zookeeper.ssl.keystore.location",
        ),
    ],
)
def test_what_cannot_be_used_is_named(settings: dict[str, str], key: str) -> None:
    with pytest.raises(SecurityConfigError) as caught:
        zookeeper_access(settings.get)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("path", "protection"),
    [
        ("/", Protection.READABLE),
        ("/brokers/ids/1", Protection.READABLE),
        ("/config/topics/t", Protection.READABLE),
        ("/config/users", Protection.SECRET),
        ("/config/users/ann/clients/app", Protection.SECRET),
        ("/config/brokers/0", Protection.SECRET),
        ("/delegation_token/token_changes", Protection.READABLE),
        ("/delegation_token/tokens/a", Protection.SECRET),
        ("/consumers", Protection.OPEN),
    ],
)
def test_protection_by_path(path: str, protection: Protection) -> None:
    assert protection_of(path) is protection
