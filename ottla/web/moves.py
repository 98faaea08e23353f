"""The page's memory of the moves that it has begun."""

import subprocess
from dataclasses import dataclass, field

from ottla.commands.reassignment.progress import MoveMeter


@dataclass(slots=True)
class Moves:
    """The moves that are being watched.

    Attributes:
        meter: Measures them; None if none are known.
        keepers: The processes that remove throttles, which outlive the page.
    """

    meter: MoveMeter | None = None
    keepers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def reap(self) -> None:
        """Forget the keepers that have ended."""
        self.keepers = [each for each in self.keepers if each.poll() is None]
