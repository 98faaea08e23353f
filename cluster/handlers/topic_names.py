"""What a topic may be called."""

import re
from typing import Final

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_valid_topic_name(name: str) -> bool:
    """Whether a topic may have this name: 1 to 249 of the letters A-Z a-z 0-9 . _ - and not only dots."""
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")
