"""The health check of the broker's image: whether the broker behind the management socket runs.

A broker whose ZooKeeper is away still serves, and is as healthy as it can be; so that is not asked.
"""

import sys
from pathlib import Path

from ottla.management_client import BrokerGoneError, ManagementClient, ManagementError

SOCKET = Path("/run/ottla/management.sock")
TIMEOUT_S = 4.0


def main() -> int:
    """Return the exit code that Docker reads: 0 for healthy, 1 for not. The text is what `docker inspect` shows."""
    try:
        with ManagementClient(SOCKET, timeout_s=TIMEOUT_S) as client:
            state = client.call("describe", partitions=False)["state"]
    except (BrokerGoneError, ManagementError) as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{state}\n")
    return 0 if state == "running" else 1


if __name__ == "__main__":
    sys.exit(main())
