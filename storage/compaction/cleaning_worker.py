"""The interface of what compacts one log; in a broker a worker process implements it."""

from typing import Protocol

from storage.compaction.job import CleaningJob, CleaningResult, OnGroup


class CleaningWorker(Protocol):
    """Runs one job; `storage.compaction.worker_process.WorkerProcess` does it in a process."""

    def run(self, job: CleaningJob, on_group: OnGroup) -> CleaningResult:
        """Run a job to its end, reporting finished groups meanwhile; blocks.

        Raises:
            WorkerFailedError: there is no result.
        """
        ...

    def kill(self) -> None:
        """Make `run` end soon; may be called from another thread, before `run` and after it."""
        ...


def worker_process() -> CleaningWorker:
    """Make a worker that has a process of its own."""
    from storage.compaction.worker_process import WorkerProcess  # only where something is cleaned

    return WorkerProcess()
