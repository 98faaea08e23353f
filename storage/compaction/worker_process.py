"""The broker's end of a compaction worker's process."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Final

from storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult, OnGroup, WorkerFailedError

_ROOT: Final = str(Path(__file__).resolve().parents[__name__.count(".")])
"""The folder in which the worker finds our top-level package, in the repository and when it is installed."""


class WorkerProcess:
    """Runs one job in a process of its own. `run` blocks, and is for a thread; `kill` may come from any other."""

    def __init__(self) -> None:
        """Make a worker; its process starts with `run`."""
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._lock = threading.Lock()

    def run(self, job: CleaningJob, on_group: OnGroup) -> CleaningResult:
        """Run a job to its end.

        Args:
            job: what to do.
            on_group: called with finished groups, in this thread; what it raises ends the process.

        Raises:
            WorkerFailedError: the process did not start, or ended without a result.
        """
        # Into a file: nobody reads it while the worker works, and a full pipe would block it.
        with tempfile.TemporaryFile() as errors:
            process = self._start(errors)
            result: bytes | None = None
            with process:
                try:
                    result = _follow(process, job, on_group)
                except BaseException:
                    process.kill()
                    raise
            if process.returncode != 0 or result is None:
                errors.seek(0)
                raise WorkerFailedError(_last_words(process.returncode, errors.read()))
            return CleaningResult.from_json(result)

    def _start(self, errors: IO[bytes]) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._killed:
                raise WorkerFailedError("killed")
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([_ROOT, os.environ.get("PYTHONPATH", "")]),
            }
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", f"{__package__}.worker", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=environment,
                    process_group=0,  # a Ctrl-C in the broker's terminal is the broker's affair
                )
            except OSError as error:
                raise WorkerFailedError(f"it did not start: {error}") from error
            return self._process

    def kill(self) -> None:
        """End the process, now or as soon as it would start; the caller removes what it wrote."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()


def _follow(process: "subprocess.Popen[bytes]", job: CleaningJob, on_group: OnGroup) -> bytes | None:
    """Send a process its job, and read its output to the end."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(job.to_json())
        process.stdin.close()
    except BrokenPipeError:
        return None  # it is dead already, and says why
    result = None
    for line in process.stdout:
        group = CleanedGroup.from_json(line)
        if group is None:
            result = line
        else:
            on_group(group)
    return result


def _last_words(code: int, errors: bytes) -> str:
    text = errors.decode(errors="replace").strip()
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"killed by {name}. {text}".rstrip(". ")
    return text or f"ended with {code}"
