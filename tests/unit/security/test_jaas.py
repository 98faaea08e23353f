import pytest

from security.errors import SecurityConfigError
from security.jaas import parse_jaas, quote_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_an_entry_as_kafka_documents_it() -> None:
    entry = parse_jaas(
        f'{PLAIN} required \\n\n  username="alice"   password="alice-secret" ;'.replace("\\n", "")
    )
    assert (entry.module, entry.flag) == (PLAIN, "required")
    assert entry.options == {"username": "alice", "password": "alice-secret"}


def test_values_may_hold_anything_when_quoted() -> None:
    password = "a\"b\\c;d=e ' ü"
    entry = parse_jaas(f"{PLAIN} required username=alice password={quote_jaas(password)};")
    assert entry.options == {"username": "alice", "password": password}


def test_single_quotes_and_user_entries() -> None:
    entry = parse_jaas(f"{PLAIN} required user_alice='one two' user_bob=\"2\";")
    assert entry.options == {"user_alice": "one two", "user_bob": "2"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        f"{PLAIN};",
        f"{PLAIN} required",
        f'{PLAIN} sometimes username="a";',
        f'{PLAIN} required username "secret";',
        f'{PLAIN} required username="secret;',
        f'{PLAIN} required username="a" password;',
        f'{PLAIN} required username="secret"; {PLAIN} required username="b";',
    ],
)
def test_what_is_no_entry_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SecurityConfigError) as refused:
        parse_jaas(text, "listener.name.x.plain.sasl.jaas.config")
    assert "listener.name.x.plain.sasl.jaas.config" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_options_are_not_shown() -> None:
    assert "secret" not in repr(parse_jaas(f'{PLAIN} required password="secret";'))
