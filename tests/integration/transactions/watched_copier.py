"""A copier as a process, and the watchdog that ends it when a call outlasts its own time-out."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from tests.integration.transactions.copier import CALL_TIMEOUT_S
from timing.clock import SystemClock

_COPIER = Path(__file__).with_name("copier.py")
_OVERDUE_S = 3 * CALL_TIMEOUT_S
_HANGING, _HANGING_S = "send_offsets", CALL_TIMEOUT_S + 1
"""The call that librdkafka hangs in, and when it does."""
_CLOCK = SystemClock()


class WatchedCopier:
    """A copier that is replaced by another with the same transactional id when it hangs, as a supervisor would.

    librdkafka (2.16 at least) needs that: ``send_offsets_to_transaction`` neither returns nor times out when the group
    coordinator that it remembers has gone from the metadata (its issues 5456 and 5511). It sends nothing then.

    Args:
        servers: The cluster.
        directory: The folder for the errors of copiers.
        source: The topic to copy.
        targets: The topics to copy to.
        partition: The partition, the same in all of them.
        seed: Decides which transactions it aborts on purpose.

    Attributes:
        name: The transactional id, and the group.
        hung: How many copiers hung, by what they were doing.
    """

    def __init__(
        self, servers: str, directory: Path, source: str, targets: Sequence[str], partition: int, seed: int
    ) -> None:
        self.name = f"copier-{partition}"
        self.hung: Counter[str] = Counter()
        self._command = [
            *(sys.executable, str(_COPIER), "--servers", servers, "--id", self.name),
            *("--source", source, "--targets", *targets),
            *("--partition", str(partition), "--seed", str(seed)),
        ]
        self._complaints = directory / f"{self.name}.log"
        self._said: Mapping[str, Any] = {}
        self._said_at = _CLOCK.monotonic()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def copied(self) -> int:
        """How many records it had copied when it last said so."""
        return int(self._said.get("copied", 0))

    def watch(self) -> None:
        """Replace a copier that hangs.

        Raises:
            AssertionError: it has died.
        """
        assert self._process.poll() is None, f"{self.describe()}\n{self._complaints.read_text()[-3_000:]}"
        stage = str(self._said.get("stage"))
        if _CLOCK.monotonic() - self._said_at > (_HANGING_S if stage == _HANGING else _OVERDUE_S):
            print("hangs:", self.describe(), flush=True)
            self.hung[stage] += 1
            self.replace()

    def replace(self) -> None:
        """Kill the copier, and start another that takes its place."""
        self._end()
        self._start()

    def describe(self) -> str:
        """Return what it waits for."""
        waited = _CLOCK.monotonic() - self._said_at
        return f"{self.name}: {dict(self._said)}, for {waited:.1f} s"

    def _start(self) -> None:
        with self._complaints.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"PYTHONPATH": ""},
            )
        assert self._process.stdout is not None
        self._said, self._said_at = {"stage": "start", "copied": self.copied}, _CLOCK.monotonic()
        self._listener = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._listener.start()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def _listen(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._said, self._said_at = json.loads(line), _CLOCK.monotonic()
