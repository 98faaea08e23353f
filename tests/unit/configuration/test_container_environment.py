"""Settings in environment variables, as the images of Apache Kafka and of Confluent take them."""

import pytest

from cluster.configuration.container_environment import properties_in
from cluster.configuration.errors import ConfigError


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_BROKER_ID", "broker.id"),
        ("KAFKA_ZOOKEEPER_CONNECT", "zookeeper.connect"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG", None),
        (
            "KAFKA_LISTENER_NAME_MY__LISTENER_SSL_KEYSTORE_LOCATION",
            "listener.name.my_listener.ssl.keystore.location",
        ),
        (
            "KAFKA_LISTENER_NAME_IN_SCRAM___SHA___256_SASL_JAAS_CONFIG",
            "listener.name.in.scram-sha-256.sasl.jaas.config",
        ),
        ("KAFKA_log_dirs", "log.dirs"),
    ],
)
def test_names(variable: str, name: str | None) -> None:
    expected = name or "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"
    assert properties_in({variable: "x=1, y"}) == {expected: "x=1, y"}


def test_what_is_not_ours_stays_out() -> None:
    assert (
        properties_in(
            {"PATH": "/bin", "KAFKA_HEAP_OPTS": "-Xmx1g", "KAFKAESQUE": "1", "kafka_broker_id": "1"}
        )
        == {}
    )


def test_an_empty_value_is_a_value() -> None:
    assert properties_in({"KAFKA_BROKER_RACK": ""}) == {"broker.rack": ""}


@pytest.mark.parametrize("variable", ["KAFKA_", "KAFKA_LOG_DIRS_", "KAFKA__LOG_DIRS_"])
def test_a_name_that_is_none(variable: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        properties_in({variable: "1"})


def test_two_variables_for_one_property() -> None:
    with pytest.raises(ConfigError, match=r"log\.dirs"):
        properties_in({"KAFKA_LOG_DIRS": "/a", "KAFKA_log_dirs": "/b"})
