"""DIGEST-MD5 against the example of RFC 2831, and false servers."""

import pytest

from security.digest_md5 import DigestMd5Client
from security.errors import AuthenticationError

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def client() -> DigestMd5Client:
    return DigestMd5Client("chris", "secret", "imap/elwood.innosoft.com", lambda: "OA6MHXh6VqTrRk")


def test_the_example_of_the_rfc() -> None:
    login = client()
    response = login.respond(CHALLENGE)
    assert response is not None
    assert b"response=d388dad90d4bbd760a152321f2143af7" in response
    assert login.respond(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    login = client()
    login.respond(CHALLENGE)
    with pytest.raises(AuthenticationError, match="has not proved"):
        login.respond(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff\xfe",
        b"nonsense",
        b'realm="a",algorithm=md5-sess',
        b'nonce="a",algorithm=md5',
        b'nonce="a',
    ],
)
def test_what_is_no_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(AuthenticationError, match="not one of DIGEST-MD5"):
        client().respond(challenge)


def test_encryption_by_sasl_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="use TLS"):
        client().respond(b'nonce="a",algorithm=md5-sess,qop="auth-conf"')


def test_quotes_and_other_alphabets() -> None:
    login = DigestMd5Client('a"b', "päss\u4e2d", "zookeeper/zk-sasl-md5", lambda: "n")
    response = login.respond(CHALLENGE)
    assert response is not None
    assert b'username="a\\"b"' in response
