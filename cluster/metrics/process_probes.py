"""What the operating system knows about the broker's process, under Prometheus' usual names."""

import os
import resource
from pathlib import Path
from typing import Final

from cluster.metrics.registry import Kind, Registry

_STATM: Final = Path("/proc/self/statm")
_STAT: Final = Path("/proc/self/stat")
_BOOT: Final = Path("/proc/stat")
_DESCRIPTORS: Final = "/proc/self/fd"


def add_process_probes(registry: Registry) -> None:
    """Register probes of the process's CPU time, memory, descriptors and start time."""
    registry.probe("process_cpu_seconds", "CPU time used.", _cpu_seconds, kind=Kind.COUNTER)
    registry.probe("process_resident_memory_bytes", "Memory in RAM.", _resident_bytes)
    registry.probe("process_virtual_memory_bytes", "Memory mapped.", _virtual_bytes)
    registry.probe("process_open_fds", "Descriptors open.", _open_descriptors)
    registry.probe("process_max_fds", "Descriptors that may be open.", _descriptor_limit)
    registry.probe("process_start_time_seconds", "When it started, in seconds since 1970.", _start_time)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _virtual_bytes() -> float:
    return int(_STATM.read_text().split()[0]) * resource.getpagesize()


def _resident_bytes() -> float:
    return int(_STATM.read_text().split()[1]) * resource.getpagesize()


def _open_descriptors() -> float:
    return len(os.listdir(_DESCRIPTORS))


def _descriptor_limit() -> float:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _start_time() -> float:
    # The command's name is in parentheses and may contain blanks; the start time, in ticks, is the 20th field after it.
    fields = _STAT.read_text().rpartition(")")[2].split()
    ticks = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    for line in _BOOT.read_text().splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + ticks
    return 0.0
