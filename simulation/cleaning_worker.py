"""Compaction on a simulated disk, which no other process can read: a worker that runs in the caller."""

from storage.compaction.cleaning import clean
from storage.compaction.job import CleaningJob, CleaningResult, OnGroup
from storage.disk import Disk


class InlineWorker:
    """Does the work of a worker process in the caller's thread.

    Args:
        disk: Where the logs are.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def run(self, job: CleaningJob, on_group: OnGroup) -> CleaningResult:
        """Run a job."""
        return clean(job, self._disk, on_group)

    def kill(self) -> None:
        """Do nothing: no process runs that could be killed."""
