"""``python -m``: what the profile `secured` of deploy/docker-compose.yml begins with.

It makes certificates, users, access rules, the brokers' configurations and the clients' files.

It runs to its end before the first secured broker starts, and again with each `docker compose up`: what is there stays.
Everything lies in the volume that /security is; the brokers read theirs from it, and `docker cp` brings clients theirs.
"""

import os
import sys
from pathlib import Path

from cluster.configuration.properties import read_properties
from ottla.commands.local.broker_files import write_properties
from ottla.commands.local.cluster_directory import BrokerRecord, ClusterState
from ottla.commands.local.secure import ClusterSecurity
from ottla.commands.terminal.failure import CommandError
from ottla.commands.terminal.zookeeper import connected
from timing.clock import SystemClock

SECURITY = Path("/security")
COMMON = Path("/etc/ottla/server.properties")
ZOOKEEPER, CHROOT = "zookeeper:2181", "/secured"
INSIDE, HOST = "INTERNAL", "HOST"


def main() -> int:
    """Write the files and the znodes; the environment says where clients on the host connect to."""
    host, *ports = os.environ["OTTLA_HOST"], *os.environ["OTTLA_SECURED_PORTS"].split(",")
    brokers = tuple(
        BrokerRecord(number, None, None, host, int(port), str(SECURITY / f"broker-{number}"))
        for number, port in enumerate(ports, 1)
    )
    security = ClusterSecurity(
        SECURITY,
        seen_from_clients=Path("security"),
        hosts={broker.id: [f"secured-{broker.id}"] for broker in brokers},
    )
    security.prepare(ClusterState(ZOOKEEPER + CHROOT, None, False, brokers), SystemClock())
    for broker in brokers:
        inside = f"secured-{broker.id}:9092"
        settings = {
            "broker.id": str(broker.id),
            "zookeeper.connect": ZOOKEEPER + CHROOT,
            "listeners": f"{INSIDE}://0.0.0.0:9092,{HOST}://0.0.0.0:19092",
            "advertised.listeners": f"{INSIDE}://{inside},{HOST}://{broker.host}:{broker.port}",
            "listener.security.protocol.map": f"{INSIDE}:SASL_SSL,{HOST}:SASL_SSL",
        }
        rest = security.listener_security(broker.id, [INSIDE, HOST])
        write_properties(broker, read_properties(COMMON) | settings | rest)
    try:
        with connected(ZOOKEEPER) as client:
            client.ensure_path(CHROOT)
        security.write_users(ZOOKEEPER + CHROOT)
    except CommandError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
