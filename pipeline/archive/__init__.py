"""A log directory as a Spark source.

    from pipeline.archive import OttlaLogDataSource
    spark.dataSource.register(OttlaLogDataSource)
    spark.read.format("ottla-log").load("/var/lib/ottla/logs")

It reads closed segments of a running broker, or every segment of a stopped one's directory, without asking a broker.
"""

from pipeline.archive.source import OttlaLogDataSource

__all__ = ["OttlaLogDataSource"]
