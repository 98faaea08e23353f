"""The Python Data Source `ottla-log`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pipeline.archive.segment_files import SegmentFile, segment_files

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_OPTIONS: Final = frozenset(
    ("path", "topic", "topicpattern", "includeactive", "dropaborted", "includecontrol")
)


class OttlaLogDataSource(DataSource):
    """Reads the segments of brokers' log directories, with one Spark partition for each segment.

    Options: path (a log directory, several with commas), topic (names, with commas), topicPattern, includeActive (also
    the segments that a running broker appends to; false), dropAborted (false), includeControl (false).
    The workers read the files themselves: they need the directory, and crc32c with the codecs that the data uses.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "ottla-log"

    def schema(self) -> str:
        """Return the columns."""
        from pipeline.archive.segment_reader import DDL

        return DDL

    def reader(self, schema: "StructType") -> "DataSourceReader":  # noqa: ARG002 - the columns are always these
        """Return the reader for the options.

        Raises:
            ValueError: an option is unknown or wrong.
        """
        options = {key.lower(): value for key, value in self.options.items()}
        unknown = sorted(set(options) - _OPTIONS)
        if unknown:
            raise ValueError(
                f"ottla-log has no option {', '.join(unknown)}; it has {', '.join(sorted(_OPTIONS))}"
            )
        if not options.get("path"):
            raise ValueError("ottla-log needs the path of a log directory: .load(path)")
        return _LogReader(options)


@dataclass(frozen=True)
class _SegmentPartition(InputPartition):
    segment: SegmentFile


class _LogReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def _flag(self, name: str) -> bool:
        return self._options.get(name, "false").lower() == "true"

    def partitions(self) -> Sequence[InputPartition]:
        topics = frozenset(name.strip() for name in self._options.get("topic", "").split(",") if name.strip())
        directories = [_local(part.strip()) for part in self._options["path"].split(",")]
        found = segment_files(directories, topics=topics, pattern=self._options.get("topicpattern"))
        active = self._flag("includeactive")
        return [_SegmentPartition(segment) for segment in found if active or not segment.is_active]

    def read(self, partition: Any) -> Iterator[Any]:
        from pipeline.archive.segment_reader import read_segment

        if not isinstance(partition, _SegmentPartition):
            return iter(())  # Spark's stand-in for no partitions at all
        return read_segment(
            partition.segment,
            drop_aborted=self._flag("dropaborted"),
            with_control=self._flag("includecontrol"),
        )


def _local(path: str) -> str:
    return path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:")
