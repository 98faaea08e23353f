"""A compaction worker: a niced process that reads one job from its standard input and writes the result to its
standard output.

    python -m storage.compaction.worker < job.json > result.json

It ends when its broker does: its standard input breaks then, and it is asked to die with its parent where the system
can do that.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from storage.compaction.cleaning import clean
from storage.compaction.job import CleaningJob, CleaningResult
from storage.disk import RealDisk

_NICENESS: Final = 10
_ROOT: Final = str(Path(__file__).resolve().parents[2])


class WorkerFailedError(Exception):
    """A worker that ended without a result: it was killed, ran out of memory, or has a bug, whose traceback is the
    text.
    """


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
            WorkerFailedError: the process ended without a result.
        """
        with self._lock:
            if self._killed:
                raise WorkerFailedError("killed")
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([_ROOT, os.environ.get("PYTHONPATH", "")]),
            }
            self._process = subprocess.Popen(
                [sys.executable, "-m", "storage.compaction.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
        with self._process as process:
            output, errors = process.communicate(job.to_json())
        if process.returncode != 0 or not output:
            raise WorkerFailedError(
                errors.decode(errors="replace").strip() or f"ended with {process.returncode}"
            )
        return CleaningResult.from_json(output)

    def kill(self) -> None:
        """End the process, now or as soon as it would start; what it wrote is removed by whoever asked for it."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()


def main() -> None:
    """Serve one job."""
    os.nice(_NICENESS)
    job = CleaningJob.from_json(sys.stdin.buffer.readline())
    # The broker holds the other end until it has the result: its end is ours.
    threading.Thread(target=_end_with_broker, args=(os.getppid(),), daemon=True).start()
    sys.stdout.buffer.write(clean(job, RealDisk()).to_json())
    sys.stdout.buffer.flush()


def _end_with_broker(parent: int) -> None:
    pause = threading.Event()
    while not pause.wait(1):
        if os.getppid() != parent:
            os._exit(1)


if __name__ == "__main__":
    main()
