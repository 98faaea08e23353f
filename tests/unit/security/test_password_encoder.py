"""Passwords as Kafka's PasswordEncoder stores them: encoded and decoded, and invalid ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security.password_encoder import KEY_FACTORIES, PasswordEncoder, PasswordEncodingError

FAST = PasswordEncoder("secret", iterations=2)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100))
@settings(max_examples=50, deadline=None)
def test_there_and_back(password: str) -> None:
    assert FAST.decode(FAST.encode(password)) == password


@pytest.mark.parametrize("factory", KEY_FACTORIES)
@pytest.mark.parametrize("bits", [128, 192, 256])
def test_a_stored_password_says_by_what_it_was_encrypted(factory: str, bits: int) -> None:
    stored = PasswordEncoder("secret", key_factory=factory, key_bits=bits, iterations=3).encode("p\U0001f600")
    assert FAST.decode(stored) == "p\U0001f600"
    assert FAST.decode(",".join(reversed(stored.split(",")))) == "p\U0001f600"


def test_another_secret_does_not_decrypt_it() -> None:
    for number in range(20):
        with pytest.raises(PasswordEncodingError):
            PasswordEncoder(f"other{number}", iterations=2).decode(FAST.encode("a password"))


@pytest.mark.parametrize(
    "text",
    ["", "plain", "a:b", *(f"{name}:x" for name in ("salt", "iterations"))],
)
def test_what_is_no_encrypted_password_is_refused(text: str) -> None:
    with pytest.raises(PasswordEncodingError):
        FAST.decode(text)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("iterations", "0"),
        ("iterations", "99999999999"),
        ("keyLength", "7"),
        ("cipherAlgorithm", "DES/CBC/PKCS5Padding"),
        ("keyFactoryAlgorithm", "PBKDF1"),
        ("initializationVector", "AAAA"),
        ("encryptedPassword", ""),
        ("salt", "***"),
        ("passwordLength", "3"),
    ],
)
def test_a_damaged_part_is_refused(part: str, value: str) -> None:
    parts = dict(each.partition(":")[::2] for each in FAST.encode("a password").split(","))
    damaged = ",".join(f"{name}:{text}" for name, text in (parts | {part: value}).items())
    with pytest.raises(PasswordEncodingError):
        FAST.decode(damaged)
