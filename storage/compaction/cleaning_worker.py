"""What compacts one log, and the worker process that does it in a broker."""

from typing import Protocol

from storage.compaction.job import CleaningJob, CleaningResult, OnGroup


class CleaningWorker(Protocol):
    """Runs one job; `storage.compaction.worker_process.WorkerProcess` does it in a process."""

    def run(self, job: CleaningJob, on_group: OnGroup) -> CleaningResult:
        """Run a job to its end, telling of finished groups meanwhile; blocks.

        Raises:
            WorkerFailedError: there is no result.
        """
        ...

    def kill(self) -> None:
        """Have `run` end soon; may come from another thread, before it, and after it."""
        ...


def worker_process() -> CleaningWorker:
    """Make a worker that has a process of its own."""
    from storage.compaction.worker_process import WorkerProcess  # for those that have something to clean

    return WorkerProcess()
