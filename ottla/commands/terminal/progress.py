"""A line of progress on stderr, rewritten in place, for work whose output goes elsewhere."""

import sys
from collections.abc import Callable

REFRESH_S = 1.0


class ProgressLine:
    """Shows how many records have gone by, and how fast, while stderr is a terminal.

    Args:
        read: Returns how many there are so far.
        verb: What became of them: "sent".
        more: Returns what stands behind the rate.
        shown: Whether to show it; by default where stderr is a terminal.
    """

    def __init__(
        self,
        read: Callable[[], int],
        verb: str,
        *,
        shown: bool | None = None,
        more: Callable[[], str] = str,
    ) -> None:
        self._read = read
        self._verb = verb
        self._more = more
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._width = 0

    async def run(self) -> None:
        """Rewrite the line each second, until cancelled."""
        import trio

        if not self._shown:
            return
        before, since = self._read(), trio.current_time()
        while True:
            await trio.sleep(REFRESH_S)
            count, now = self._read(), trio.current_time()
            self._write(
                f"{count:,} records {self._verb}, {(count - before) / (now - since):,.0f} a second{self._more()}"
            )
            before, since = count, now

    def clear(self) -> None:
        """Remove the line, so that other text may stand there."""
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()
            self._width = 0

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)
