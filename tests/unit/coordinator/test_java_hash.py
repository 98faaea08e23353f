"""Java's hash of strings: which partition a group belongs to, as Kafka's brokers and tools compute it."""

import pytest

from cluster.coordinator.java_hash import java_string_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98_629_247),
        ("console-consumer-12345", 158_455_506),
        ("\U0001f600", 1_772_899),
        ("polygenelubricants", -(1 << 31)),
    ],
)
def test_hash_is_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_a_negative_hash_is_made_positive_by_its_absolute_value_not_by_its_mask() -> None:
    assert java_string_hash("consumers-of-orders-0") == -1_455_393_810
    assert partition_for("consumers-of-orders-0", 50) == 10
    assert partition_for("polygenelubricants", 50) == 0
