"""The certificates of `ottla up --secure` contain the names by which clients reach the brokers."""

from pathlib import Path

from cryptography.x509 import DNSName, IPAddress, SubjectAlternativeName, load_pem_x509_certificate

from ottla.commands.local.cluster_directory import BrokerRecord, ClusterDirectory, ClusterState
from ottla.commands.local.secure import ClusterSecurity
from timing.clock import SystemClock


def state(directory: ClusterDirectory, host: str) -> ClusterState:
    broker = BrokerRecord(0, None, None, host, 9092, str(directory.broker_path(0)))
    return ClusterState("127.0.0.1:2181", None, True, (broker,))


def test_a_certificate_is_made_anew_for_another_host(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    security = ClusterSecurity(directory.security_path)
    pem = security.path / "broker-0.pem"
    written = []
    for host in ("127.0.0.1", "127.0.0.1", "10.0.0.7", "box.example", "box.example", "localhost"):
        security.prepare(state(directory, host), SystemClock())
        written.append(pem.read_bytes())
    assert written[0] == written[1]
    assert len({*written[1:4]}) == 3
    # The last host is in every certificate.
    assert written[3] == written[4] == written[5]


def test_clients_elsewhere_and_other_names(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path)
    for hosts in ({0: ["inside-0"]}, {0: ["inside-0", "10.0.0.7"]}):
        security = ClusterSecurity(directory.security_path, seen_from_clients=Path("shown/here"), hosts=hosts)
        security.prepare(state(directory, "box.example"), SystemClock())
        certificate = load_pem_x509_certificate((security.path / "broker-0.pem").read_bytes())
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
        assert {"box.example", "inside-0"} <= set(names.get_values_for_type(DNSName))
        addresses = [str(each) for each in names.get_values_for_type(IPAddress)]
        assert ("10.0.0.7" in addresses) is ("10.0.0.7" in hosts[0])
    for name in ("admin.properties", "user.librdkafka.properties", "user.py"):
        text = (security.path / name).read_text()
        assert "shown/here/ca.pem" in text
        assert str(tmp_path) not in text
    assert security.listener_security(0, ["A"])["ssl.truststore.location"] == str(security.authority)
