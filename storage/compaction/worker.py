"""A compaction worker: a niced process that reads one job from its standard input, and writes each finished group and
at last the result to its standard output. `storage.compaction.worker_process` is the broker's end.

    python -m storage.compaction.worker <process id of the broker> < job.json > groups-and-result.json

It ends when its broker does, however that ends: Linux kills it at once, elsewhere it checks every second that its
parent is still the same.
"""

import ctypes
import os
import signal
import sys
import threading
from typing import Final

from storage.compaction.cleaning import clean
from storage.compaction.job import CleaningJob
from storage.disk import RealDisk

_NICENESS: Final = 10
_LOOK_S: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Serve one job of the broker whose process id is the argument."""
    _end_with(int(sys.argv[1]))
    os.nice(_NICENESS)
    job = CleaningJob.from_json(sys.stdin.buffer.readline())
    _say(clean(job, RealDisk(), lambda group: _say(group.to_json())).to_json())


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _end_with(broker: int) -> None:
    """Make this process end when its broker does.

    A broker that was killed and starts again soon cleans the same log: two workers that write the same file would
    corrupt it.
    """
    if sys.platform == "linux":
        # The signal comes when the broker's thread that started this process ends; that thread waits for us.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != broker:
        sys.exit(1)
    threading.Thread(target=_watch, args=(broker,), daemon=True).start()


def _watch(broker: int) -> None:
    pause = threading.Event()
    while not pause.wait(_LOOK_S):
        if os.getppid() != broker:
            os._exit(1)


if __name__ == "__main__":
    main()
