"""Ctrl-C in the first moments of a command: whatever is being imported, it ends without a traceback."""

import signal
import subprocess
import sys

import pytest

COMMAND = ("topics", "--bootstrap-server", "127.0.0.1:1", "--list")


@pytest.mark.parametrize("module", ["ottla.start", "click.utils", "click", "wire", "trio", "ottla.client"])
def test_an_interrupt_while_a_module_is_imported(module: str) -> None:
    # Python prints a line after each import, so the signal arrives during a later one.
    command = [sys.executable, "-X", "importtime", "-m", "ottla", *COMMAND]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as started:
        assert started.stderr is not None
        for line in started.stderr:
            if line.rpartition("|")[2].strip() == module:
                break
        else:
            raise AssertionError(f"{module} is not imported")
        started.send_signal(signal.SIGINT)
        rest = "".join(line for line in started.stderr if not line.startswith("import time:"))
        code = started.wait(60)
    assert "Traceback" not in rest
    assert code in (-signal.SIGINT, 1), rest
