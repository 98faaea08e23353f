"""``ottla up --secure``: what it prints works as printed, and nobody else gets in."""

import datetime
import json
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme

from ottla.commands.local.cluster_directory import ClusterDirectory

OTTLA = (sys.executable, "-m", "ottla")


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterDirectory]:
    data = tmp_path_factory.mktemp("secured")
    up = run(
        *OTTLA,
        "up",
        "--secure",
        "--detach",
        "--brokers",
        "2",
        "--port",
        "0",
        "--zookeeper-port",
        "0",
        "--data",
        str(data),
    )
    assert up.returncode == 0, up.stderr
    directory = ClusterDirectory(data)
    assert str(data / "security" / "admin.properties") in up.stdout
    yield directory
    assert run(*OTTLA, "stop", "--data", str(data)).returncode == 0


def properties(cluster: ClusterDirectory, name: str) -> Path:
    return cluster.path / "security" / f"{name}.properties"


def command(cluster: ClusterDirectory, name: str, *arguments: str, config: Path | None = None):
    servers = cluster.require().bootstrap_servers
    file = properties(cluster, "admin") if config is None else config
    return run(*OTTLA, name, "--bootstrap-server", servers, "--command-config", str(file), *arguments)


def test_the_python_program_runs_as_printed(cluster: ClusterDirectory) -> None:
    done = run(sys.executable, str(cluster.path / "security" / "user.py"))
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_administrator_administers(cluster: ClusterDirectory) -> None:
    assert command(cluster, "topics", "--create", "--topic", "made", "--partitions", "1").returncode == 0
    assert "made" in command(cluster, "topics", "--list").stdout
    added = "SCRAM-SHA-256=[iterations=8192,password=a,b=c]"
    made = command(cluster, "configs", "--alter", "--user", "carol", "--add-config", added)
    assert made.returncode == 0, made.stderr
    shown = command(cluster, "configs", "--describe", "--entity-type", "users", "--entity-name", "carol")
    assert "SCRAM-SHA-256=iterations=8192" in shown.stdout
    removed = command(cluster, "configs", "--alter", "--user", "carol", "--delete-config", "SCRAM-SHA-256")
    assert removed.returncode == 0, removed.stderr


def test_the_user_does_not(cluster: ClusterDirectory) -> None:
    file = properties(cluster, "user")
    refused = command(cluster, "configs", "--describe", "--entity-type", "users", config=file)
    assert refused.returncode != 0
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.stderr


def test_the_doctor_explains(cluster: ClusterDirectory, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.properties"
    text = properties(cluster, "user").read_text()
    for change, words in (
        (text.replace('username="user"', 'username="nobody"'), "check user and password"),
        (re.sub('password=".*"', 'password="wrong"', text), "check user and password"),
        (
            text.replace("SCRAM-SHA-512", "PLAIN").replace("scram.Scram", "plain.Plain"),
            "it enables SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (text.replace("SASL_SSL", "SSL"), "closed"),
        (text.replace("SASL_SSL", "SASL_PLAINTEXT"), "closed"),
        ("", "the port speaks TLS"),
        ("\n".join(line for line in text.split("\n") if "truststore" not in line), "ssl.truststore.location"),
    ):
        wrong.write_text(change)
        done = command(cluster, "doctor", config=wrong)
        assert done.returncode == 1
        assert words in " ".join(done.stdout.split()), done.stdout
    assert command(cluster, "doctor", config=properties(cluster, "user")).returncode == 0


def test_the_doctor_names_the_rule_that_is_missing(cluster: ClusterDirectory) -> None:
    assert command(cluster, "topics", "--create", "--topic", "hidden", "--partitions", "1").returncode == 0
    for rule in (("--operation", "All", "--topic", "hidden"), ("--operation", "All", "--group", "closed")):
        done = command(cluster, "acls", "--add", "--deny-principal", "User:user", *rule, "--force")
        assert done.returncode == 0, done.stderr
    asked = ("--topic", "hidden", "--topic", "absent", "--group", "closed", "--group", "readers", "--json")
    done = command(cluster, "doctor", *asked, config=properties(cluster, "user"))
    assert done.returncode == 1
    found = {each["subject"]: each for each in json.loads(done.stdout)["findings"]}
    assert "no access rule" in found["topic hidden"]["text"]
    assert (
        "acls --add --allow-principal User:NAME --producer --topic hidden" in found["topic hidden"]["advice"]
    )
    assert found["topic absent"]["text"] == "does not exist"
    assert "no access rule" in found["group closed"]["text"]
    assert found["group readers"]["well"]
    done = command(cluster, "doctor", "--topic", "hidden")
    assert "this user may read and write" in " ".join(done.stdout.split())


@contextmanager
def tls_port(certificate: trustme.LeafCert) -> Iterator[int]:
    """Complete the TLS handshake with each client, and send nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with suppress(OSError), context.wrap_socket(sock, server_side=True) as peer:
                    peer.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize(
    ("host", "days", "text", "advice"),
    [
        ("127.0.0.1", -1, "the certificate has expired", "renew the certificate"),
        ("elsewhere.example", 1, "not made out for this address", "connect by a name that the certificate"),
    ],
)
def test_the_doctor_explains_certificates(
    tmp_path: Path, host: str, days: int, text: str, advice: str
) -> None:
    authority = trustme.CA()
    trusted, config = tmp_path / "ca.pem", tmp_path / "client.properties"
    authority.cert_pem.write_to_path(str(trusted))
    config.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n")
    now = datetime.datetime.now(datetime.UTC)
    begins, ends = now - datetime.timedelta(days=2), now + datetime.timedelta(days=days)
    certificate = authority.issue_cert(host, not_before=begins, not_after=ends)
    with tls_port(certificate) as port:
        asked = ("doctor", "--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(config))
        done = run(*OTTLA, *asked)
    assert done.returncode == 1
    printed = " ".join(done.stdout.split())
    assert text in printed, done.stdout
    assert advice in printed


def test_no_password_is_logged_or_readable_by_others(cluster: ClusterDirectory) -> None:
    passwords = json.loads((cluster.path / "security" / "passwords.json").read_text()).values()
    for broker in cluster.require().brokers:
        assert not any(password in broker.log_file.read_text() for password in passwords)
        assert broker.properties.stat().st_mode & 0o077 == 0
    for file in (cluster.path / "security").iterdir():
        assert file.name == "ca.pem" or file.stat().st_mode & 0o077 == 0


def test_it_is_not_started_without_its_security(cluster: ClusterDirectory) -> None:
    refused = run(*OTTLA, "up", "--detach", "--data", str(cluster.path))
    assert refused.returncode != 0
    assert "--secure" in refused.stderr
