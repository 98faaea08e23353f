"""Passwords among dynamic settings: encrypted where they are stored, plain where they are used."""

import pytest

from cluster.configuration.broker_config import BrokerConfig
from cluster.configuration.errors import ConfigError
from cluster.configuration.stored_passwords import StoredPasswords

NAME = "listener.name.ssl.ssl.keystore.password"
OTHER = {"log.cleaner.threads": "2"}


def passwords(**settings: str) -> StoredPasswords:
    named = {f"password.encoder.{name.replace('_', '.')}": value for name, value in settings.items()}
    given = {"zookeeper.connect": "localhost:2181", "password.encoder.iterations": "1024"}
    return StoredPasswords(BrokerConfig(given | named))


def test_passwords_are_encrypted_and_the_rest_is_not() -> None:
    encoder = passwords(secret="s")
    stored = encoder.encoded({NAME: "hidden", **OTHER}, {})
    assert stored[NAME].startswith("keyFactoryAlgorithm:")
    assert "hidden" not in stored[NAME]
    assert encoder.decoded(stored) == {NAME: "hidden", **OTHER}


def test_what_did_not_change_stays_as_it_is_stored() -> None:
    encoder = passwords(secret="s")
    stored = encoder.encoded({NAME: "hidden"}, {})
    assert encoder.encoded({NAME: "hidden", **OTHER}, stored) == {**stored, **OTHER}
    assert encoder.encoded({NAME: "another"}, stored) != stored


def test_without_a_secret_no_password_is_stored() -> None:
    with pytest.raises(ConfigError, match=r"password\.encoder\.secret is not set") as caught:
        passwords().encoded({NAME: "pass word"}, {})
    assert "pass word" not in str(caught.value)


def test_a_password_of_another_secret_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    stored = passwords(secret="s").encoded({NAME: "hidden", **OTHER}, {})
    assert passwords(secret="t").decoded(stored) == OTHER
    assert f"{NAME} is left out" in caplog.text
    assert stored[NAME] not in caplog.text


def test_the_old_secret_still_decrypts_until_the_new_one_has_encrypted() -> None:
    stored = passwords(secret="old").encoded({NAME: "hidden", **OTHER}, {})
    both = passwords(secret="new", old_secret="old")
    assert both.decoded(stored)[NAME] == "hidden"
    renewed = both.renewed(stored)
    assert renewed != stored
    assert passwords(secret="new").decoded(renewed) == {NAME: "hidden", **OTHER}
    assert both.renewed(renewed) == renewed
