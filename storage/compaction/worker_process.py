"""The broker's end of a compaction worker's process."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from storage.compaction.job import CleaningJob, CleaningResult, WorkerFailedError

_ROOT: Final = str(Path(__file__).resolve().parents[2])


class WorkerProcess:
    """Runs one job in a process of its own. `run` blocks, and is for a thread; `kill` may come from any other."""

    def __init__(self) -> None:
        """Make a worker; its process starts with `run`."""
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._lock = threading.Lock()

    def run(self, job: CleaningJob) -> CleaningResult:
        """Run a job to its end.

        Raises:
            WorkerFailedError: the process did not start, or ended without a result.
        """
        with self._lock:
            if self._killed:
                raise WorkerFailedError("killed")
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([_ROOT, os.environ.get("PYTHONPATH", "")]),
            }
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "storage.compaction.worker", str(os.getpid())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    process_group=0,  # a Ctrl-C in the broker's terminal is the broker's affair
                )
            except OSError as error:
                raise WorkerFailedError(f"it did not start: {error}") from error
        with self._process as process:
            output, errors = process.communicate(job.to_json())
        if process.returncode != 0 or not output:
            raise WorkerFailedError(_last_words(process.returncode, errors))
        return CleaningResult.from_json(output)

    def kill(self) -> None:
        """End the process, now or as soon as it would start; what it wrote is removed by whoever asked for it."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()


def _last_words(code: int, errors: bytes) -> str:
    text = errors.decode(errors="replace").strip()
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"killed by {name}. {text}".rstrip(". ")
    return text or f"ended with {code}"
