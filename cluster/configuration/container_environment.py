"""Settings in environment variables, as in Apache Kafka's and Confluent's images: ``KAFKA_LOG_DIRS=/data``."""

from collections.abc import Mapping
from typing import Final

from cluster.configuration.errors import ConfigError

PREFIX: Final = "KAFKA_"
_OF_JAVA: Final = frozenset(
    {
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)
"""Variables of those images that are not broker settings: Java's and log4j's."""


def properties_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in an environment.

    The name behind the prefix is lowered, and ``_`` is a period, ``__`` an underscore, ``___`` a hyphen.

    Args:
        environment: All variables; those without the prefix, and those that are Java's, are left out.

    Raises:
        ConfigError: two variables set one property, or a name ends in an underscore.
    """
    properties: dict[str, str] = {}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in _OF_JAVA:
            continue
        name = _property_name(variable.removeprefix(PREFIX).lower())
        if not name or name.startswith(".") or name.endswith("."):
            raise ConfigError(variable, None, "the name of a property behind KAFKA_")
        if name in properties:
            raise ConfigError(name, None, "one variable of the environment, not two")
        properties[name] = environment[variable]
    return properties


def _property_name(lowered: str) -> str:
    # From the longest run of underscores to the shortest; no replacement contains an underscore.
    parts = [part.split("__") for part in lowered.split("___")]
    return "-".join("_".join(piece.replace("_", ".") for piece in part) for part in parts)
