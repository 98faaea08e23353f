"""A query's progress as a consumer group's commits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.kafka_access import KafkaAccess
from pipeline.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def following_group(
    spark: "SparkSession", access: KafkaAccess, group: str | None, query: str, report: Report
) -> Iterator[None]:
    """Commit the progress of the query of this name to a group, for as long as the block runs."""
    yield
