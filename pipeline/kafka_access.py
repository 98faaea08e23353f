"""Access to the cluster: options for Spark's connector, and librdkafka for the driver's own requests."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pipeline.failure import JobError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ASK_TIMEOUT_S: Final = 10.0
CREATE_TIMEOUT_S: Final = 30.0

# Settings with the same name in the Java client and librdkafka; others are set for each by its own option.
_COMMON: Final = ("security.protocol", "sasl.mechanism", "client.rack")


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What identifies a topic: created again under its name, it has another id."""

    id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """A cluster, and how to reach it.

    Attributes:
        bootstrap_server: ``HOST:PORT,...``
        kafka_config: Settings of the Java client, for Spark.
        client_config: Settings of librdkafka, for the driver's own requests and the group commits.
    """

    bootstrap_server: str
    kafka_config: Mapping[str, str] = field(default_factory=dict)
    client_config: Mapping[str, str] = field(default_factory=dict)

    def spark_options(self) -> dict[str, str]:
        """Return the options of the connector's source and sink."""
        settings = {f"kafka.{key.removeprefix('kafka.')}": value for key, value in self.kafka_config.items()}
        return {"kafka.bootstrap.servers": self.bootstrap_server, **settings}

    def client_options(self) -> dict[str, Any]:
        """Return the options of a librdkafka client, quiet on stderr."""
        common = {key: self.kafka_config[key] for key in _COMMON if key in self.kafka_config}
        return {
            "bootstrap.servers": self.bootstrap_server,
            "log_level": 0,
            **common,
            **self.client_config,
        }

    def topics(self, names: Sequence[str] = (), pattern: str | None = None) -> dict[str, TopicFacts]:
        """Return the topics of these names, or those that match a pattern; absent ones are left out.

        Raises:
            JobError: the cluster does not answer.
        """
        from confluent_kafka import KafkaException, TopicCollection

        admin = self._admin()
        try:
            known = admin.list_topics(timeout=ASK_TIMEOUT_S).topics
            wanted = [n for n in known if n in names or (pattern is not None and re.fullmatch(pattern, n))]
            if not wanted:
                return {}
            asked = admin.describe_topics(TopicCollection(wanted), request_timeout=ASK_TIMEOUT_S)
            described = {name: future.result(timeout=2 * ASK_TIMEOUT_S) for name, future in asked.items()}
        except KafkaException as error:
            raise self._unreachable(error) from None
        except TimeoutError as error:
            raise self._unreachable(error) from None
        return {name: TopicFacts(str(t.topic_id), len(t.partitions)) for name, t in described.items()}

    def require_topics(self, names: Sequence[str]) -> dict[str, TopicFacts]:
        """Return the topics of these names.

        Raises:
            JobError: one does not exist, or the cluster does not answer.
        """
        found = self.topics(names)
        missing = sorted(set(names) - set(found))
        if missing:
            raise JobError(
                f"topic {', '.join(missing)} does not exist on {self.bootstrap_server}: "
                "create it with `ottla topics --create`, or correct the name"
            )
        return found

    def ensure_topic(
        self, name: str, *, partitions: int = -1, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic unless it exists; an existing one is used as it is.

        Raises:
            JobError: the cluster refuses, or does not answer.
        """
        if self.topics([name]):
            return
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # it is re-exported without saying so

        topic = NewTopic(name, partitions, -1, config=dict(configs or {}))
        admin = self._admin()  # held until the answer has come: it is closed with its last reference
        future = admin.create_topics([topic], operation_timeout=CREATE_TIMEOUT_S)[name]
        try:
            future.result(timeout=2 * CREATE_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise JobError(f"topic {name} cannot be created: {error.args[0].str()}") from None

    def _admin(self) -> "AdminClient":
        try:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient
        except ImportError:
            raise JobError(
                "confluent-kafka is not installed where the driver runs: pip install 'ottla[pipeline]'"
            ) from None
        try:
            return AdminClient(self.client_options())
        except KafkaException as error:
            raise JobError(f"--client-config is wrong: {error.args[0].str()}") from None

    def _unreachable(self, error: Exception) -> JobError:
        why = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
        return JobError(
            f"the cluster at {self.bootstrap_server} cannot be reached: {why or 'no answer'}; "
            "check --bootstrap-server and that its brokers run"
        )
