"""A part of each foreign test suite; `python -m tests.compat.foreign run SUITE` runs a whole suite."""

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
