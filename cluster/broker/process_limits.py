"""The limits that a broker sets for its process before it starts: descriptors, and how long a thread runs."""

import logging
import resource
import sys
from typing import Final

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread may hold the interpreter while another one wants it: the loop must not wait for kazoo's threads."""
DESCRIPTORS_FOR_FILES: Final = 64
"""Descriptors that connections leave to files: with none left, a log cannot roll, and an import fails."""
DESCRIPTORS_WANTED: Final = 10_000
"""Files of logs and connections: with fewer, a broker of many partitions runs out."""


def set_process_limits() -> None:
    """Raise the descriptor limit as far as the system allows, and shorten the thread switch interval."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_WANTED:
        logger.warning(
            "at most %d files can be open; a broker wants %d (ulimit -n)", hard, DESCRIPTORS_WANTED
        )


def connection_descriptor_max() -> int:
    """Return the descriptor number from which on new connections are refused."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 31 if soft == resource.RLIM_INFINITY else max(soft - DESCRIPTORS_FOR_FILES, soft // 2)
