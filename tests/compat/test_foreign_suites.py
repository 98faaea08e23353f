"""A part of other people's test suites; `python -m tests.compat.foreign run SUITE` runs one whole."""

import subprocess
import sys

import pytest

from tests.machine import ROOT


@pytest.mark.needs("Apache Kafka")
@pytest.mark.parametrize("suite", ["kafka-python", "kafka"])
def test_what_passed_before_passes_again(suite: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.compat.foreign", "run", suite, "--smoke"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
