"""What limited a measurement: the rate that was asked for, this process, or the other side. No I/O."""

from typing import Final

_NEARLY: Final = 0.97
_BUSY: Final = 0.85


def limited_by(*, rate: float, asked: float | None, processor_s: float, elapsed_s: float) -> str:
    """Say what kept a test from being faster.

    Args:
        rate: Records a second that were reached.
        asked: Records a second that were asked for, None for as many as possible.
        processor_s: Processor time that this process took.
        elapsed_s: How long it all took.
    """
    share = processor_s / elapsed_s if elapsed_s > 0 else 0.0
    if asked is not None and rate >= asked * _NEARLY:
        return f"the rate that was asked for; this process used {share:.0%} of a processor"
    if share >= _BUSY:
        return f"this process, which used {share:.0%} of a processor"
    return (
        f"the brokers or the way to them: this process used {share:.0%} of a processor, and waited otherwise"
    )
