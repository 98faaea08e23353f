"""Any failure of a job is one line that says what to do."""

import pytest

from pipeline.failure import JobError, explain


class SparkError(Exception):
    """An error like PySpark's: its text has Java's stack trace."""

    _cause: Exception | None = None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("java.io.IOException: No space left on device", "the disk is full"),
        (
            "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost",
            "records are gone from the topic",
        ),
        (
            "UnknownTopicOrPartitionException: This server does not host this topic-partition.",
            "a topic does not exist: This server does not host this topic-partition; create it",
        ),
        (
            "TimeoutException: Timed out waiting for a node assignment. Call: listTopics",
            "the cluster cannot be reached",
        ),
        ("IllegalStateException: Malformed log file file:/c/offsets/0", "the checkpoint cannot be read"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", "a path does not exist"),
    ],
)
def test_what_is_known_is_explained(text: str, expected: str) -> None:
    line = explain(SparkError(f"Job aborted\n  at org.apache.spark.X\nCaused by: {text}\n\tat y.Z"))
    assert line.startswith(expected)
    assert "\n" not in line


def test_the_innermost_cause_stands_for_what_is_not_known() -> None:
    text = "outer\nCaused by: java.lang.RuntimeException: middle\n\tat a.B\nCaused by: a.b.CError: the reason\n\tat c.D"
    assert explain(SparkError(text)) == "the reason"
    assert explain(SparkError("[ONLY_A_LINE] of text. SQLSTATE: 42000")) == "of text"
    assert explain(SparkError()) == "SparkError"


def test_the_options_in_a_plan_are_no_cause() -> None:
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `amuont` cannot be "
        "resolved. Did you mean one of the following? [`amount`]. SQLSTATE: 42703; line 1 pos 0;\n'Project ['amuont]\n"
        "+- StreamingRelationV2 kafka, [failOnDataLoss=true, subscribe=orders], [key#7]\n"
    )
    assert explain(SparkError(text)).startswith(
        "A column, variable, or function parameter with name `amuont` cannot"
    )


def test_javas_causes_are_found_where_pyspark_keeps_them() -> None:
    error, middle = SparkError("Task failed"), SparkError("Job aborted")
    error._cause, middle._cause = middle, SparkError("java.io.IOException: No space left on device")
    assert explain(error).startswith("the disk is full")


def test_our_own_errors_stay_as_they_are_on_one_line() -> None:
    assert explain(JobError("two\nlines")) == "two lines"
