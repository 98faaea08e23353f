"""Which Spark, and which jars beside it: the one place to change when moving up.

The connector has Spark's version, the rest is what that version of the connector depends on. `pyspark` in
pyproject.toml names the same version; a test compares them. What the wheel of PySpark carries already (lz4,
snappy, slf4j) is not listed.
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
        """``group:name:version``, as spark-submit's --packages takes it."""
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
        package: What a resolver is asked for.
        jars: What must be there, ``package`` among them.
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
