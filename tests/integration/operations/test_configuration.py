"""Settings change while brokers run, are shown with their sources, and outlive restarts."""

import pytest
from confluent_kafka import KafkaException, Producer

from tests.integration.operations.operating import BROKERS, Operator
from tests.patience import until


def setting(operator: Operator, name: str, *entity: str) -> tuple[str, str] | None:
    """Return a setting's value and source, as the cluster describes it."""
    (described,) = operator.run("configs", "--describe", *entity, "--all")
    for config in described["configs"]:
        if config["name"] == name:
            return config["value"], config["source"]
    return None


def test_a_topics_settings_hold_at_once(operator: Operator) -> None:
    operator.place("tuned", (0, 1, 2))
    producer = Producer(
        {
            "bootstrap.servers": operator.cluster.bootstrap_servers,
            "message.max.bytes": 4_000_000,
            "log_level": 0,
        }
    )
    refused: list[bool] = []

    def offer() -> bool:
        """Send a large record, and return whether it was accepted."""
        refused.clear()
        producer.produce(
            "tuned", bytes(100_000), on_delivery=lambda error, _: refused.append(error is not None)
        )
        assert producer.flush(60) == 0
        return not refused[0]

    topic = ("--topic", "tuned")
    assert offer()
    operator.run("configs", "--alter", *topic, "--add-config", "max.message.bytes=50000")
    until(lambda: not offer())
    assert setting(operator, "max.message.bytes", *topic) == ("50000", "DYNAMIC_TOPIC_CONFIG")
    operator.run("configs", "--alter", *topic, "--delete-config", "max.message.bytes")
    until(offer)
    assert setting(operator, "max.message.bytes", *topic) == ("1048588", "DEFAULT_CONFIG")


def test_lists_are_appended_to_and_subtracted_from(operator: Operator) -> None:
    operator.place("listed", (0, 1))
    topic = ("--topic", "listed")
    operator.run("configs", "--alter", *topic, "--append-config", "cleanup.policy=compact")
    assert setting(operator, "cleanup.policy", *topic) == ("delete,compact", "DYNAMIC_TOPIC_CONFIG")
    operator.run("configs", "--alter", *topic, "--subtract-config", "cleanup.policy=delete")
    assert setting(operator, "cleanup.policy", *topic) == ("compact", "DYNAMIC_TOPIC_CONFIG")


def test_a_wrong_value_is_refused_and_a_dry_run_changes_nothing(operator: Operator) -> None:
    operator.place("checked", (0, 1))
    topic = ("--topic", "checked")
    operator.run("configs", "--alter", *topic, "--add-config", "retention.ms=soon", expect=1)
    operator.run("configs", "--alter", *topic, "--add-config", "no.such.setting=1", expect=1)
    operator.run("configs", "--alter", *topic, "--add-config", "retention.ms=1000", "--dry-run")
    found = setting(operator, "retention.ms", *topic)
    assert found is not None
    assert found[1] == "DEFAULT_CONFIG"


def test_a_brokers_settings_lie_over_the_default_of_all(operator: Operator) -> None:
    name = "log.cleaner.backoff.ms"
    operator.run("configs", "--alter", "--broker-defaults", "--add-config", f"{name}=20000")
    operator.run("configs", "--alter", "--broker", "1", "--add-config", f"{name}=30000")
    expected = {
        0: ("20000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        1: ("30000", "DYNAMIC_BROKER_CONFIG"),
        2: ("20000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    }

    def shown() -> dict[int, tuple[str, str] | None]:
        return {broker: setting(operator, name, "--broker", str(broker)) for broker in BROKERS}

    until(lambda: shown() == expected)
    operator.cluster.kill(1)
    operator.cluster.start(1)
    assert shown() == expected
    operator.run("configs", "--alter", "--broker", "1", "--delete-config", name)
    operator.run("configs", "--alter", "--broker-defaults", "--delete-config", name)
    until(lambda: set(shown().values()) == {("15000", "DEFAULT_CONFIG")})


def test_what_only_a_restart_can_change_is_refused(operator: Operator) -> None:
    operator.run("configs", "--alter", "--broker", "0", "--add-config", "broker.rack=a", expect=1)
    operator.run("configs", "--alter", "--broker-defaults", "--add-config", "zookeeper.connect=x:1", expect=1)


@pytest.mark.parametrize("size", [100_000])
def test_the_largest_message_of_all_topics(operator: Operator, size: int) -> None:
    operator.place("bounded", (0, 1))
    producer = Producer({"bootstrap.servers": operator.cluster.bootstrap_servers, "log_level": 0})

    def offer() -> str:
        shown: list[str] = []
        producer.produce(
            "bounded", bytes(size), on_delivery=lambda error, _: shown.append(error.name() if error else "")
        )
        assert producer.flush(60) == 0
        return shown[0]

    try:
        operator.run("configs", "--alter", "--broker-defaults", "--add-config", "message.max.bytes=50000")
        until(lambda: offer() == "MSG_SIZE_TOO_LARGE")
    except KafkaException as error:
        raise AssertionError(error) from None
    finally:
        operator.run("configs", "--alter", "--broker-defaults", "--delete-config", "message.max.bytes")
    until(lambda: offer() == "")
