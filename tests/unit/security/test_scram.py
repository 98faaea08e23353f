import pytest
from hypothesis import given
from hypothesis import strategies as st

from security.errors import AuthenticationError
from security.scram import (
    CredentialFormatError,
    ScramClient,
    ScramMechanism,
    attributes_of,
    escape_name,
    make_credential,
    parse_credential,
)

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def test_the_exchange_of_rfc_7677() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.respond(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert client.done


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    client.first()
    client.respond(b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(AuthenticationError):
        client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    assert not client.done


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"e=other-error",
        b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=nonce,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"r=nonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        b"r=nonceX,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2000000000",
        b"r=nonceX,s=***,i=4096",
        b"r=nonceX,i=4096",
        b"\xff\xfe",
    ],
)
def test_a_hostile_challenge(challenge: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", "nonce")
    client.first()
    with pytest.raises(AuthenticationError):
        client.respond(challenge)


def test_a_token_says_so() -> None:
    assert (
        ScramClient(SHA_512, "id", "hmac", "n", {"tokenauth": "true"}).first()
        == b"n,,n=id,r=n,tokenauth=true"
    )


@given(st.text())
def test_names_are_escaped(name: str) -> None:
    escaped = escape_name(name)
    assert "," not in escaped
    assert escaped.replace("=2C", ",").replace("=3D", "=") == name


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_credential_in_zookeeper(mechanism: ScramMechanism) -> None:
    credential = make_credential(mechanism, "passwörd, =", b"salt", 4096)
    assert parse_credential(mechanism, credential.to_text()) == credential
    assert set(attributes_of(credential.to_text().encode())) == {
        "salt",
        "stored_key",
        "server_key",
        "iterations",
    }
    assert "stored_key" not in repr(credential)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=c2FsdA==",
        "salt=c2FsdA==,stored_key=!,server_key=!,iterations=4096",
        make_credential(SHA_256, "p", b"s", 4096).to_text().replace("iterations=4096", "iterations=1"),
        make_credential(SHA_256, "p", b"s", 4096).to_text().replace("4096", str(1 << 31)),
        make_credential(SHA_512, "p", b"s", 4096).to_text(),
    ],
)
def test_a_malformed_credential_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(CredentialFormatError) as refused:
        parse_credential(SHA_256, text)
    assert "c2FsdA" not in str(refused.value)
