"""Why a job ended, and masters that are refused before Spark starts."""

import signal
import socket

import pytest

from pipeline.failure import JobError
from pipeline.spark_submit import killed_by, require_master


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-signal.SIGKILL, "Spark's Java was ended by SIGKILL; the system may have been out of memory; start"),
        (128 + signal.SIGKILL, "the driver was ended by SIGKILL; the system"),
        (128 + signal.SIGTERM, "the driver was ended by SIGTERM; start the job again"),
    ],
)
def test_a_job_that_was_killed_is_named_so(code: int, expected: str) -> None:
    said = killed_by(code)
    assert said is not None
    assert said.startswith(expected)


@pytest.mark.parametrize("code", [1, 2, 101, 128, 255])
def test_a_failure_is_no_signal(code: int) -> None:
    assert killed_by(code) is None


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("locl[2]", "is no master: it is local"),
        ("spark://host", "host is not HOST:PORT"),
        ("spark://127.0.0.1:1", "cannot be reached .*is its master running"),
    ],
)
def test_a_master_that_cannot_work_is_refused_at_once(master: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        require_master(master)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2]", "local[2, 3]", "yarn", "k8s://https://a:1"]
)
def test_masters_that_spark_knows_are_taken(master: str) -> None:
    require_master(master)


def test_one_standalone_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
