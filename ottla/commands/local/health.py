"""Whether brokers are well: what their management sockets say, and waiting for it."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from ottla.commands.local.cluster_directory import BrokerRecord
from ottla.commands.terminal.failure import CommandError
from ottla.management_client import BrokerGoneError, ManagementClient, ManagementError
from ottla.processes import exit_poll
from timing.clock import Clock
from timing.polling import pause_between_looks

HEALTHY_TIMEOUT_S: Final = 60.0
_RETRY_MS: Final = 10
_LAST_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What a broker says of itself.

    Attributes:
        record: Which broker.
        description: What its management socket gave; None where it does not answer.
    """

    record: BrokerRecord
    description: dict[str, Any] | None

    @property
    def state(self) -> str:
        """``running``, an earlier or later state of its life, or ``stopped``."""
        if self.description is not None:
            return str(self.description.get("state", "running"))
        return "starting" if self.record.is_running else "stopped"

    @property
    def controller_id(self) -> int:
        """The controller as this broker knows it, -1 for none."""
        found = (self.description or {}).get("controller_id")
        return -1 if found is None else int(found)

    @property
    def live_brokers(self) -> frozenset[int]:
        """The brokers that this one knows to live."""
        return frozenset((self.description or {}).get("live_brokers", ()))


def ask_status(broker: BrokerRecord) -> BrokerStatus:
    """Ask a broker how it is; one that does not answer is no error."""
    if not broker.is_running:
        return BrokerStatus(broker, None)
    try:
        with ManagementClient(broker.management_socket) as client:
            return BrokerStatus(broker, client.call("describe", partitions=False))
    except (BrokerGoneError, ManagementError):
        return BrokerStatus(broker, None)


def wait_healthy(
    brokers: Sequence[BrokerRecord],
    clock: Clock,
    timeout_s: float = HEALTHY_TIMEOUT_S,
) -> None:
    """Wait until every one of some brokers runs, knows all the others, and knows a controller.

    A broker that recovers its logs may take as long as it wants.

    Raises:
        CommandError: one died, with the last it printed, or they were not healthy in time.
    """
    wanted = frozenset(broker.id for broker in brokers)
    deadline = clock.monotonic() + timeout_s
    with ExitStack() as stack:
        ends = [(broker, stack.enter_context(exit_poll(broker.pid or 0))) for broker in brokers]
        while True:
            statuses = [ask_status(broker) for broker in brokers]
            if all(_is_healthy(status, wanted) for status in statuses):
                return
            for broker, end in ends:
                if end.poll(0):
                    raise CommandError(f"broker {broker.id} ended while it started:\n{last_lines(broker)}")
            if any(status.state == "recovering" for status in statuses):
                deadline = clock.monotonic() + timeout_s
            if clock.monotonic() > deadline:
                late = ", ".join(f"{s.record.id} ({s.state})" for s in statuses if not _is_healthy(s, wanted))
                raise CommandError(f"not healthy after {timeout_s:g} s: broker {late}; see their broker.log")
            pause_between_looks(_RETRY_MS / 1000)


def _is_healthy(status: BrokerStatus, wanted: frozenset[int]) -> bool:
    return status.state == "running" and status.controller_id >= 0 and wanted <= status.live_brokers


def last_lines(broker: BrokerRecord) -> str:
    """Return the last that a broker printed."""
    try:
        with broker.log_file.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 8192))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        lines = []
    return "\n".join(f"  {line}" for line in lines[-_LAST_LINES:]) or "  (it printed nothing)"
