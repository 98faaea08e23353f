"""The certificates of `ottla up --secure` name what clients reach the brokers by."""

from pathlib import Path

from ottla.commands.local.cluster_directory import BrokerRecord, ClusterDirectory, ClusterState
from ottla.commands.local.secure import ClusterSecurity
from timing.clock import SystemClock


def state(directory: ClusterDirectory, host: str) -> ClusterState:
    broker = BrokerRecord(0, None, None, host, 9092, str(directory.broker_path(0)))
    return ClusterState("127.0.0.1:2181", None, True, (broker,))


def test_a_certificate_is_made_anew_for_another_host(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    security = ClusterSecurity(directory)
    pem = security.path / "broker-0.pem"
    written = []
    for host in ("127.0.0.1", "127.0.0.1", "10.0.0.7", "box.example", "box.example", "localhost"):
        security.prepare(state(directory, host), SystemClock())
        written.append(pem.read_bytes())
    assert written[0] == written[1]
    assert len({*written[1:4]}) == 3
    # The last host is one that every certificate names.
    assert written[3] == written[4] == written[5]
