"""The log of a Parquet table names its files by whole paths."""

import json

import pytest

from pipeline.failure import JobError
from pipeline.tables import committed_files


class Files:
    """A folder with the log of one batch; `present` says which of its files exist."""

    def __init__(self, named: str, present: bool) -> None:
        self._named = named
        self._present = present

    def names(self, path: str) -> list[str]:
        return ["0"] if path.endswith("/_spark_metadata") else ["_spark_metadata"]

    def read_text(self, path: str) -> str:
        return "v1\n" + json.dumps({"path": self._named})

    def exists(self, path: str) -> bool:
        return self._present

    def qualified(self, path: str) -> str:
        return f"file:{path}"


@pytest.mark.parametrize(
    ("named", "present"),
    [
        ("file:///data/t/event_date=a%20b/1.parquet", True),
        ("file:/data/t/1", False),
        ("file:///link/t/1", True),
    ],
)
def test_a_table_where_its_log_says_is_read(named: str, present: bool) -> None:
    assert committed_files(Files(named, present), "/data/t") == [named]


def test_a_table_that_was_moved_is_refused() -> None:
    with pytest.raises(JobError, match="the table at /data/t was moved: its log names /old/t/1"):
        committed_files(Files("file:///old/t/1", present=False), "/data/t")
