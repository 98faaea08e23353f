"""The connector's offsets: JSON of topics, partitions and offsets, as progress and checkpoints hold them."""

import json
from typing import Any


def parse_offsets(text: Any) -> dict[tuple[str, int], int]:
    """Read ``{"topic":{"0":33223}}``; empty for any other text, such as 'None' before the first batch."""
    try:
        topics = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    if not isinstance(topics, dict):
        return {}
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in topics.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
    }
