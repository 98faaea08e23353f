import pytest

from cluster.security.principal import ANONYMOUS, KafkaPrincipal, PrincipalError, parse_principal


def test_text_and_back() -> None:
    principal = KafkaPrincipal("User", "CN=a,OU=b:c")
    assert str(principal) == "User:CN=a,OU=b:c"
    assert parse_principal(str(principal)) == principal


def test_a_principal_is_compared_exactly() -> None:
    assert parse_principal("user:alice") != KafkaPrincipal("User", "alice")
    assert parse_principal("User:Alice") != KafkaPrincipal("User", "alice")


def test_a_token_proves_the_same_principal() -> None:
    by_token = KafkaPrincipal("User", "alice", token_authenticated=True)
    assert by_token == KafkaPrincipal("User", "alice")
    assert hash(by_token) == hash(KafkaPrincipal("User", "alice"))


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:", ":"])
def test_what_is_no_principal(text: str) -> None:
    with pytest.raises(PrincipalError):
        parse_principal(text)


def test_nobody() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
