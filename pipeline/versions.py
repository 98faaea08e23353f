"""The versions of Spark and of the jars beside it: the one place to change for an upgrade.

The connector has Spark's version; the rest are the dependencies of that version of the connector. `pyspark` in
pyproject.toml names the same version; a test compares them. Jars in PySpark's wheel (lz4, snappy, slf4j) are not
listed.
"""

from dataclasses import dataclass
from typing import Final

SPARK: Final = "4.0.0"
SCALA: Final = "2.13"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar by its Maven coordinates."""

    group: str
    name: str
    version: str

    @property
    def coordinate(self) -> str:
        """``group:name:version``, as spark-submit's --packages accepts it."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        """The jar's name in a Maven repository; Ivy puts ``group_`` in front."""
        return f"{self.name}-{self.version}.jar"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Jars that are needed together.

    Attributes:
        name: For people.
        package: The artifact that a resolver fetches.
        jars: All jars of the bundle, ``package`` included.
    """

    name: str
    package: Artifact
    jars: tuple[Artifact, ...]


_CONNECTOR: Final = Artifact("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", SPARK)
_DELTA: Final = Artifact("io.delta", f"delta-spark_{SCALA}", "4.0.0")
_AVRO: Final = Artifact("org.apache.spark", f"spark-avro_{SCALA}", SPARK)

KAFKA: Final = Bundle(
    "Kafka connector",
    _CONNECTOR,
    (
        _CONNECTOR,
        Artifact("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", SPARK),
        Artifact("org.apache.kafka", "kafka-clients", "3.9.0"),
        Artifact("org.apache.commons", "commons-pool2", "2.12.0"),
    ),
)
DELTA: Final = Bundle("Delta Lake", _DELTA, (_DELTA, Artifact("io.delta", "delta-storage", "4.0.0")))
AVRO: Final = Bundle("Avro", _AVRO, (_AVRO,))
