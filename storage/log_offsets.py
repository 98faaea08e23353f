"""The offsets of a log that bound what may be read, and the order between them.

log start <= last stable offset <= high watermark <= log end
"""

from storage.log_files import LogFiles
from wire.types import Offset


class LogOffsets:
    """The log start and the high watermark of one log; its end is where its segments end.

    Attributes:
        log_start: the first offset that may be read.
        high_watermark: the offset below which every in-sync replica has all records.
    """

    __slots__ = ("_producer_state", "_segments", "high_watermark", "log_start")

    def __init__(self, files: LogFiles) -> None:
        self._segments = files.segments
        self._producer_state = files.producer_state
        self.log_start = Offset(0)
        self.high_watermark = Offset(0)

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raise the high watermark, to the log's end at most; a lower one changes nothing.

        Returns:
            Whether it rose.
        """
        offset = min(offset, self._segments.end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        self._producer_state.on_high_watermark(offset)
        return True

    def set_high_watermark(self, offset: Offset) -> Offset:
        """Set the high watermark, kept within the log, and return it; it may fall."""
        self.high_watermark = max(min(offset, self._segments.end_offset), self.log_start)
        self._producer_state.on_high_watermark(self.high_watermark)
        return self.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which no transaction is open: what readers of committed data may read."""
        first = self._producer_state.first_unstable_offset
        if first is None or first >= self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start)
