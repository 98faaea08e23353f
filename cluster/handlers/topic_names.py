"""Check a topic name without raising."""

from cluster.controller.topic_admin import check_topic_name
from wire.errors import ApiError


def is_valid_topic_name(name: str) -> bool:
    """Whether a topic can have this name."""
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True
