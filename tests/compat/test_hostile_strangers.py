"""Strangers at secured listeners: refused, answered nothing before they authenticate, and a nuisance to nobody."""

import select
import socket
import ssl
from collections.abc import Iterator, Mapping
from struct import pack

import pytest
from confluent_kafka.admin import AdminClient

from security.sasl_client import PlainClient
from tests.compat.certificates import Authority, run
from tests.compat.secured_cluster import SecuredCluster
from tests.compat.test_sasl import PLAIN_MODULE
from tests.patience import until
from wire.frames import decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.metadata import MetadataRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

DELAY_S = 0.1
STRANGERS = 1000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def settings(ports: range, authority: Authority) -> Mapping[str, str]:
    users = 'user_broker="b" user_alice="a"'
    plain = f'{PLAIN_MODULE} required username="broker" password="b" {users};'
    return {
        "listeners": f"SASL://127.0.0.1:{ports[0]},TLS://127.0.0.1:{ports[1]},REAUTH://127.0.0.1:{ports[2]}",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,TLS:SSL,REAUTH:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": plain,
        "listener.name.reauth.plain.sasl.jaas.config": plain,
        "listener.name.reauth.plain.connections.max.reauth.ms": "1500",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.pem("broker")),
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("hostile"), 1) as cluster:
        cluster.start([settings(cluster.ports[0], authority)])
        yield cluster


@pytest.fixture(autouse=True)
def others_are_served(cluster: SecuredCluster) -> Iterator[None]:
    yield
    alice = {
        "bootstrap.servers": f"127.0.0.1:{cluster.ports[0][0]}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "a",
    }
    assert AdminClient(alice).list_topics(timeout=20).brokers
    assert "Traceback" not in cluster.brokers[0].log


def connect(cluster: SecuredCluster, listener: int = 0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cluster.ports[0][listener]), timeout=20)


def read_all(peer: socket.socket) -> bytes:
    """Read until the end of the stream; a reset counts as the end."""
    data = b""
    try:
        while chunk := peer.recv(65536):
            data += chunk
    except ConnectionResetError:
        pass
    return data


def ask(peer: socket.socket, frame: bytes | bytearray, cls, version: int):
    peer.sendall(frame)
    size = int.from_bytes(receive(peer, 4), "big")
    return decode_response(cls, version, receive(peer, size))[1]


def receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = peer.recv(size - len(data))
        assert chunk, "the broker closed the connection"
        data += chunk
    return data


def shake_hands(peer: socket.socket) -> None:
    answer = ask(
        peer, encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "x"), SaslHandshakeResponse, 1
    )
    assert answer.error_code == 0


def authenticate(peer: socket.socket, password: str = "a", version: int = 2):
    token = PlainClient("alice", password).first()
    request = encode_request(SaslAuthenticateRequest(auth_bytes=token), version, 2, "x")
    return ask(peer, request, SaslAuthenticateResponse, version)


@pytest.mark.parametrize(
    "data",
    [
        pack(">i", -1),
        pack(">i", 0),
        pack(">i", 524_289),
        pack(">i", 2**31 - 1),
        pack(">i", 4) + b"\x60\x82\x02\x00",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        bytes(encode_request(MetadataRequest(), 9, 1, "x")),
        bytes(encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0a"), 1, 1, "x")),
    ],
)
def test_nothing_is_said_to_who_does_not_authenticate(cluster: SecuredCluster, data: bytes) -> None:
    with connect(cluster) as peer:
        peer.sendall(data)
        assert read_all(peer) == b""


def test_versions_are_told_once(cluster: SecuredCluster) -> None:
    versions = bytes(encode_request(ApiVersionsRequest(), 0, 1, "x"))
    with connect(cluster) as peer:
        peer.sendall(versions * 1000)
        answers = read_all(peer)
    size = int.from_bytes(answers[:4], "big")
    assert len(answers) == size + 4


def test_the_refusal_comes_late_and_whole(cluster: SecuredCluster) -> None:
    from timing.clock import SystemClock

    clock = SystemClock()
    with connect(cluster) as peer:
        shake_hands(peer)
        request = encode_request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 1, 2, "x")
        began = clock.monotonic()
        peer.sendall(bytes(request) + bytes(encode_request(MetadataRequest(), 9, 3, "x")) * 100)
        size = int.from_bytes(receive(peer, 4), "big")
        assert clock.monotonic() - began >= DELAY_S
        answer = decode_response(SaslAuthenticateResponse, 1, receive(peer, size))[1]
        assert answer.error_code == 58
        assert read_all(peer) == b""


def test_a_request_behind_the_handshake_is_not_begun(cluster: SecuredCluster) -> None:
    with connect(cluster) as peer:
        handshake = bytes(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "x"))
        peer.sendall(handshake + bytes(encode_request(MetadataRequest(), 9, 2, "x")))
        answers = read_all(peer)
    assert len(answers) == 4 + int.from_bytes(answers[:4], "big")


def test_a_session_ends(cluster: SecuredCluster) -> None:
    with connect(cluster, 2) as peer:
        shake_hands(peer)
        assert authenticate(peer).session_lifetime_ms == 1500
        until_ended(peer)
        peer.sendall(encode_request(MetadataRequest(), 9, 3, "x"))
        assert read_all(peer) == b""


def test_a_session_is_prolonged_by_the_same_user(cluster: SecuredCluster) -> None:
    with connect(cluster, 2) as peer:
        shake_hands(peer)
        authenticate(peer)
        again = encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "x")
        assert ask(peer, again, SaslHandshakeResponse, 1).error_code == 34  # within a second
        until_ended(peer)
        shake_hands(peer)
        assert authenticate(peer).session_lifetime_ms == 1500
        peer.sendall(encode_request(MetadataRequest(topics=[]), 9, 3, "x"))
        assert receive(peer, 4)
    with connect(cluster, 2) as peer:
        shake_hands(peer)
        authenticate(peer)
        until_ended(peer)
        shake_hands(peer)
        token = b"\0broker\0b"
        request = encode_request(SaslAuthenticateRequest(auth_bytes=token), 1, 2, "x")
        assert ask(peer, request, SaslAuthenticateResponse, 1).error_code == 58
        assert read_all(peer) == b""


def until_ended(peer: socket.socket) -> None:
    """Wait until the session has expired, and check that the idle connection stays open."""
    assert select.select([peer], [], [], 1.6) == ([], [], [])


def test_many_strangers_that_stop_halfway(cluster: SecuredCluster) -> None:
    peers = [connect(cluster, number % 2) for number in range(STRANGERS)]
    for number, peer in enumerate(peers):
        peer.sendall(pack(">i", 1000) + bytes(10) if number % 2 == 0 else b"\x16\x03\x01\x02\x00\x01")
    with connect(cluster) as peer:
        shake_hands(peer)
        assert authenticate(peer).error_code == 0
    for each in peers:
        each.close()


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", pack(">i", 20) + bytes(20), b"\x16\x03\x00\x00\x00", bytes(70_000)]
)
def test_no_tls_at_a_tls_port(cluster: SecuredCluster, data: bytes) -> None:
    with connect(cluster, 1) as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        answer = read_all(peer)
    assert len(answer) <= 7  # an alert at most


def test_old_tls_and_renegotiation(cluster: SecuredCluster, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(cluster, 1) as plain, context.wrap_socket(plain, server_hostname="localhost") as peer:
        assert peer.version() == "TLSv1.2"
    old = ["openssl", "s_client", "-connect", f"127.0.0.1:{cluster.ports[0][1]}", "-tls1_1"]
    with pytest.raises(AssertionError):
        run(*old)


def test_a_byte_at_a_time(cluster: SecuredCluster) -> None:
    frame = bytes(encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "x"))
    with connect(cluster) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frame:
            peer.sendall(bytes([byte]))
        size = int.from_bytes(receive(peer, 4), "big")
        assert decode_response(SaslHandshakeResponse, 1, receive(peer, size))[1].error_code == 0


def test_failures_are_logged_and_bounded(cluster: SecuredCluster) -> None:
    for number in range(50):
        with connect(cluster) as peer:
            shake_hands(peer)
            peer.sendall(
                encode_request(
                    SaslAuthenticateRequest(auth_bytes=f"\0x{number}\n\0secret word".encode()), 1, 2, "x"
                )
            )
    until(lambda: "authentication failed" in cluster.brokers[0].log)
    assert "secret word" not in cluster.brokers[0].log
    lines = [line for line in cluster.brokers[0].log.split("\n") if "authentication failed" in line]
    assert all(line.count("address=") == 1 for line in lines)
    assert len(lines) < 40
