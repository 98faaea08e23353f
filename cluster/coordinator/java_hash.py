"""Java's hash of strings, which decides the partition of an internal topic that a group belongs to."""

from functools import lru_cache


def java_string_hash(text: str) -> int:
    """Return ``String.hashCode`` of Java: over UTF-16 code units, in signed 32 bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=16_384)
def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of ``__consumer_offsets`` or ``__transaction_state`` that a group or id belongs to.

    The partition follows from the absolute value of the hash; the lowest hash, which has none, counts as 0. Results for
    recent keys are cached: each request of a group asks again.
    """
    value = java_string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
