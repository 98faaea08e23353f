"""Mutated bytes against all that a stranger reaches, and what a client sends once it is logged in.

Frames, SASL exchanges, bearer tokens, certificates, ClientHellos, what follows a handshake of TLS, and the bodies of
all requests in all versions.

    python -m tests.fuzz.authentication --inputs 1000000 --seed 1

What an input may do: be answered, fail, or be refused by the typed error of its layer. What it may not: raise anything
else, be answered after a failure, or authenticate without the one password or proof that is right. A finding is
printed with its input, and the seed makes it again.
"""

import argparse
import hashlib
import ssl
import sys
from collections.abc import Sequence
from functools import partial
from random import Random

import trustme

from cluster.network.buffer_pool import BufferPool
from cluster.network.frame_reader import FrameReader
from cluster.security.sasl_exchange import Answered, Authenticated, Failed, SaslExchange, SaslSettings
from cluster.security.sasl_mechanisms import PlainServer, ScramDirectory, ScramServer
from cluster.statemachines.sasl import SaslState
from security.scram import ScramClient, ScramMechanism, make_credential
from security.tls_session import TlsSession
from tests.fuzz.credentials import credential_targets
from tests.fuzz.target import Finding, Target
from tests.hostile_requests import cases
from wire.apis import API_TABLE
from wire.errors import RemoteProtocolError
from wire.frames import decode_request, decode_request_header, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.metadata import MetadataRequest
from wire.messages.sasl_authenticate import SaslAuthenticateRequest
from wire.messages.sasl_handshake import SaslHandshakeRequest

PASSWORD = b"wonderland-password"
FRAME_BYTES_MAX = 524_288
MUTATIONS_MAX = 6
SHA_256 = ScramMechanism.SHA_256
CREDENTIAL = make_credential(SHA_256, PASSWORD.decode(), b"salt", 4096)
INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"=2C",
    b"=",
    b",",
    b"\n",
    b"\xc3\x28",
    b"\\ud800",
    b"9" * 400,
)


def _payload(message: object, version: int) -> bytes:
    return bytes(encode_request(message, version, 5, "fuzz"))[4:]  # type: ignore[arg-type]  # any request


def _settings() -> SaslSettings:
    directory = ScramDirectory(
        find_user=lambda mechanism, user: CREDENTIAL if user == "alice" else None,
        find_token=lambda mechanism, token_id: None,
        secret=b"secret",
        new_nonce=lambda: "server",
    )
    return SaslSettings(
        mechanisms={
            "PLAIN": partial(PlainServer, {"alice": hashlib.sha256(PASSWORD).digest()}),
            "SCRAM-SHA-256": partial(ScramServer, SHA_256, directory),
        },
        max_session_ms={},
        answer_versions=lambda request, version: ApiVersionsResponse(api_keys=[]),
        wall_ms=lambda: 1_000_000,
    )


SETTINGS = _settings()


def _scram_messages() -> tuple[bytes, bytes, bytes]:
    """Return both messages of an honest login, and its proof."""
    client = ScramClient(SHA_256, "alice", PASSWORD.decode(), "nonce")
    exchange = SaslExchange(SETTINGS)
    exchange.receive(memoryview(_payload(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0)))
    first = client.first()
    answer = exchange.receive(memoryview(first))
    assert isinstance(answer, Answered)
    final = client.respond(bytes(answer.answer)[4:])
    return first, final, final.partition(b",p=")[2]


FIRST, FINAL, PROOF = _scram_messages()
# The last character of base64 has unused bits.
PROOF_STEM = PROOF.rstrip(b"=")[:-1]


def exchange_frames(frames: Sequence[bytes]) -> None:
    """Send frames to an exchange until it ends."""
    exchange = SaslExchange(SETTINGS)
    for frame in frames:
        outcome = exchange.receive(memoryview(frame))
        if isinstance(outcome, Authenticated):
            if outcome.principal.name != "alice" or not (PASSWORD in frame or PROOF_STEM in frame):
                raise Finding(f"authenticated as {outcome.principal} without a password or proof")
            if exchange.state is not SaslState.DONE:
                raise Finding(f"authenticated in the state {exchange.state}")
            return
        if isinstance(outcome, Failed):
            # A mutation can put the password where a name belongs, and names are shown.
            if exchange.mechanism and PASSWORD.decode() in outcome.reason:
                raise Finding("a password is shown")
            return


def cut_frames(chunks: Sequence[bytes]) -> None:
    """Feed bytes to the frame reader of a connection, and decode the headers of the frames."""
    pool = BufferPool()
    reader = FrameReader(pool, FRAME_BYTES_MAX)
    for chunk in chunks:
        left = memoryview(chunk)
        while left:
            space = reader.space()
            count = min(len(space), len(left))
            space[:count] = left[:count]
            left = left[count:]
            reader.received(count)
            try:
                while (frame := reader.next_frame()) is not None:
                    decode_request_header(frame)
            except RemoteProtocolError:
                reader.abandon()
                return
            reader.settle()
            if reader.held_bytes > 4 * FRAME_BYTES_MAX:
                raise Finding(f"{reader.held_bytes} bytes are held for a frame")
    reader.abandon()


def _tls_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    return context


def _tls_client() -> TlsSession:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return TlsSession(context, server_side=False)


class TlsServer:
    """A listener's TLS, fed with bytes for ClientHellos and for what follows."""

    def __init__(self) -> None:
        self._context = _tls_server()
        self._space = memoryview(bytearray(1 << 16))

    def hello(self) -> bytes:
        """Return what an honest client sends first."""
        client = _tls_client()
        client.handshake()
        return client.outgoing()

    def receive_behind(self, chunks: Sequence[bytes]) -> None:
        """Receive bytes after a handshake: encrypted ones arrive as they are, others end the connection."""
        server, client = TlsSession(self._context, server_side=True), _tls_client()
        for _ in range(2):
            client.handshake()
            server.feed(client.outgoing())
            server.handshake()
            client.feed(server.outgoing())
        sent, received = b"".join(chunks), b""
        client.write(sent)
        server.feed(client.outgoing())
        while count := server.read_into(self._space):
            received += self._space[:count]
        if received != sent:
            raise Finding(f"{len(sent)} bytes were sent, and {len(received)} came or others")
        try:
            for chunk in chunks:
                server.feed(chunk)
                if server.read_into(self._space):
                    raise Finding("bytes that nobody encrypted were taken for a request")
                if server.outgoing_size > 1 << 20:
                    raise Finding("a peer is answered with a megabyte")
        except ssl.SSLError:
            return

    def receive(self, chunks: Sequence[bytes]) -> None:
        """Receive a client's bytes until the handshake fails."""
        session = TlsSession(self._context, server_side=True)
        for chunk in chunks:
            session.feed(chunk)
            try:
                if session.handshake():
                    raise Finding("a handshake ended that nobody could have ended")
                if session.outgoing_size > 1 << 20:
                    raise Finding("a stranger is answered with a megabyte")
            except ssl.SSLError:
                return


def bodies() -> list[list[bytes]]:
    """Return a request of each version of each API, with one of everything in it."""
    return [
        [next(cases(api, version)).build()]
        for api in API_TABLE.values()
        for version in range(api.min_version, api.max_version + 1)
    ]


def decode_bodies(payloads: Sequence[bytes]) -> None:
    """Decode requests as a broker does after the authentication."""
    for payload in payloads:
        try:
            decode_request(memoryview(payload))
        except RemoteProtocolError:
            return


def targets() -> list[Target]:
    """Return everything that inputs are thrown at."""
    versions = _payload(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    metadata = _payload(MetadataRequest(topics=None), 9)
    plain = b"\0alice\0" + PASSWORD
    sasl = [
        [
            versions,
            _payload(SaslHandshakeRequest(mechanism="PLAIN"), 1),
            _payload(SaslAuthenticateRequest(auth_bytes=plain), 2),
        ],
        [_payload(SaslHandshakeRequest(mechanism="PLAIN"), 0), plain],
        [
            _payload(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1),
            _payload(SaslAuthenticateRequest(auth_bytes=FIRST), 2),
            _payload(SaslAuthenticateRequest(auth_bytes=FINAL), 2),
        ],
        [_payload(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0), FIRST, FINAL],
        [metadata, versions],
    ]
    framed = [b"".join(len(each).to_bytes(4, "big") + each for each in frames) for frames in sasl]
    tls = TlsServer()
    hello = tls.hello()
    return [
        Target("SASL", 0.4, sasl, exchange_frames),
        Target("frames", 0.2, [[each] for each in framed], cut_frames),
        *credential_targets(),
        Target("bodies", 0.1, bodies(), decode_bodies),
        Target("TLS", 0.03, [[hello], [hello, hello], [framed[0]], [hello[:100], hello[100:]]], tls.receive),
        Target("behind TLS", 0.02, [[each] for each in framed], tls.receive_behind),
    ]


def mutated(messages: Sequence[bytes], others: Sequence[Sequence[bytes]], chance: Random) -> list[bytes]:
    """Return messages with a few mutations: bits, bytes, lengths, order, parts of other inputs."""
    result = [bytearray(message) for message in messages]
    for _ in range(chance.randint(1, MUTATIONS_MAX)):
        if not result:
            break
        message = chance.choice(result)
        at = chance.randrange(len(message) + 1)
        match chance.randrange(9):
            case 0 if message:
                message[at - 1] ^= 1 << chance.randrange(8)
            case 1 if message:
                message[at - 1] = chance.randrange(256)
            case 2:
                del message[at : at + chance.randint(1, 8)]
            case 3:
                message[at:at] = chance.choice(INTERESTING)
            case 4:
                message[at:at] = chance.randbytes(chance.randint(1, 16))
            case 5:
                source = chance.choice(chance.choice(others))
                begin = chance.randrange(len(source) + 1)
                message[at:at] = source[begin : begin + chance.randint(1, 64)]
            case 6:
                result.append(bytearray(chance.choice(chance.choice(others))))
            case 7:
                chance.shuffle(result)
            case _:
                del message[at:]
    return [bytes(message) for message in result]


def fuzz(target: Target, inputs: int, seed: int) -> None:
    """Throw mutated inputs at a target.

    Raises:
        Finding: an input did what none is allowed to; the text shows the input.
    """
    chance = Random(f"{target.name} {seed}")
    for number in range(inputs):
        messages = mutated(chance.choice(target.seeds), target.seeds, chance)
        try:
            target.run(messages)
        except Finding as finding:
            raise Finding(f"{target.name}, seed {seed}, input {number}: {finding}: {messages!r}") from None
        except Exception as error:
            raise Finding(f"{target.name}, seed {seed}, input {number}: {error!r}: {messages!r}") from error


def main() -> int:
    """Share the inputs among the targets; TLS, where an input costs a hundred times as much, gets fewer."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.authentication", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for target in targets():
        count = int(options.inputs * target.share)
        try:
            fuzz(target, count, options.seed)
        except Finding as finding:
            print(finding, file=sys.stderr)
            return 1
        print(f"{target.name}: {count:,} inputs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
