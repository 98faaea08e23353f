"""Fields and the columns that a job adds: neither overwrites the other."""

import pytest

from pipeline.failure import JobError
from pipeline.parsing import avro_frame, require_free_names


def test_any_name_that_no_column_needs_is_free() -> None:
    require_free_names(["value", "reason", "headers", "key", "extra_fields", "event_date", "kafka_lag"], {})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["event_DATE"], "the field event_date has the name of the column that --partition-by day adds"),
        (["a", "A"], "two fields are named a"),
        (["kafka_Offset"], "the name kafka_offset is taken"),
    ],
)
def test_a_name_that_is_needed_is_refused(names, message) -> None:
    with pytest.raises(JobError, match=message):
        require_free_names(names, {"event_date": "--partition-by day"})


@pytest.mark.parametrize(
    ("schema", "message"),
    [("{", "it is no JSON"), ('"int"', "no Avro schema of a record"), ('{"type":"enum"}', "of a record")],
)
def test_what_is_no_avro_record_is_refused(schema, message) -> None:
    with pytest.raises(JobError, match=message):
        avro_frame(schema)
