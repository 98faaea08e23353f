"""Files as they are found in production: each is accepted, or refused with the name of the setting that prevents it."""

import logging
from pathlib import Path

import pytest

from cluster.broker.addresses import addresses_of
from cluster.configuration.broker_config import BrokerConfig
from cluster.configuration.config_providers import resolve_references
from cluster.configuration.errors import ConfigError
from cluster.configuration.properties import read_properties

FILES = Path(__file__).parent / "files"
TAKEN = {
    "kafka_default": [],
    "old_acl": [],
    "bitnami_plain": ["unknown setting max.request.size"],
    "confluent_plain": ["metric.reporters=io.confluent", "unknown setting confluent.balancer.enable"],
    "confluent_control_plane": [],
    "strimzi_plain": [],
    "tuned": ["unknown setting jmx.port"],
}
REFUSED = {
    "kafka_kraft": r"^process\.roles=broker,controller: .*ZooKeeper",
    "tiered": r"^remote\.log\.storage\.system\.enable=true: ",
    "old_ranger": r"^authorizer\.class\.name=org\.apache\.ranger",
    "own_provider": r"^config\.providers\.secretsmanager\.class=com\.amazonaws",
    "kerberos": r"^s[a-z.]+=(GSSAPI|SASL_PLAINTEXT): ",
}


def config_of(name: str) -> BrokerConfig:
    properties = read_properties(FILES / f"{name}.properties")
    return BrokerConfig(resolve_references(properties, {"ZONE": "zone-a"}))


def test_every_file_has_a_case() -> None:
    assert {path.stem for path in FILES.iterdir()} == TAKEN.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = config_of(name)
    assert addresses_of(config).advertised
    for warning in TAKEN[name]:
        assert warning in caplog.text
    if not TAKEN[name]:
        assert not caplog.text
    if name in ("strimzi_plain", "confluent_control_plane"):
        assert config.broker_rack == "zone-a"


def test_the_controllers_listener() -> None:
    addresses = addresses_of(config_of("confluent_control_plane"))
    assert (addresses.inter_broker, addresses.controller) == ("REPLICATION", "CONTROL")
    assert addresses_of(config_of("kafka_default")).controller == "PLAINTEXT"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("REPLICATION", "another listener than the one"), ("OTHER", "the name of an advertised listener")],
)
def test_a_controllers_listener_that_is_none(name: str, expected: str) -> None:
    properties = read_properties(FILES / "confluent_control_plane.properties")
    config = BrokerConfig(
        resolve_references(properties | {"control.plane.listener.name": name}, {"ZONE": "z"})
    )
    with pytest.raises(ConfigError, match=rf"^control\.plane\.listener\.name={name}: expected {expected}"):
        addresses_of(config)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=REFUSED[name]):
        config_of(name)
