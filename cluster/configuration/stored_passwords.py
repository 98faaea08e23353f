"""Passwords among the dynamic settings of a broker: encrypted in ZooKeeper, plain in memory."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.configuration.catalogue import broker_settings
from cluster.configuration.errors import ConfigError
from cluster.configuration.listener_names import base_name
from cluster.configuration.setting import HIDDEN
from security.password_encoder import KEY_FACTORY, PasswordEncoder, PasswordEncodingError

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig

logger = logging.getLogger(__name__)


class StoredPasswords:
    """Encrypts and decrypts the passwords among settings.

    Args:
        config: Has ``password.encoder.secret`` and the like.
    """

    def __init__(self, config: "BrokerConfig") -> None:
        factory = config.password_encoder_keyfactory_algorithm or KEY_FACTORY
        self._encoders = [
            PasswordEncoder(
                secret,
                key_factory=factory,
                key_bits=config.password_encoder_key_length,
                iterations=config.password_encoder_iterations,
            )
            for secret in (config.password_encoder_secret, config.password_encoder_old_secret)
            if secret
        ]
        self._encrypts = bool(config.password_encoder_secret)

    def decoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return settings with their passwords plain; one that cannot be decrypted is left out, with a warning."""
        values = {}
        for name, text in stored.items():
            if not is_password(name):
                values[name] = text
                continue
            password = self._decode(text)
            if password is None:
                logger.error(
                    "%s is left out: it cannot be decrypted by password.encoder.secret, nor by the old one",
                    name,
                )
            else:
                values[name] = password
        return values

    def encoded(self, values: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
        """Return settings in the form to be stored; unchanged passwords keep their stored form.

        Raises:
            ConfigError: a password is to be stored, and there is no secret to encrypt it with.
        """
        result = {}
        for name, value in values.items():
            if not is_password(name):
                result[name] = value
            elif name in stored and value in (stored[name], self._decode(stored[name])):
                result[name] = stored[name]
            elif not self._encrypts:
                raise ConfigError(
                    name, HIDDEN, "no password: password.encoder.secret is not set, so none can be stored"
                )
            else:
                result[name] = self._encoders[0].encode(value)
        return result

    def renewed(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return settings with the passwords of the old secret encrypted again with the present one."""
        result = dict(stored)
        if len(self._encoders) == 2:
            for name, text in stored.items():
                if is_password(name) and _decoded_by(self._encoders[0], text) is None:
                    password = _decoded_by(self._encoders[1], text)
                    if password is not None:
                        result[name] = self._encoders[0].encode(password)
        return result

    def _decode(self, text: str) -> str | None:
        return next(
            (found for each in self._encoders if (found := _decoded_by(each, text)) is not None), None
        )


def is_password(name: str) -> bool:
    """Whether a broker's setting is a password."""
    setting = broker_settings().get(base_name(name))
    return setting is not None and setting.is_sensitive


def _decoded_by(encoder: PasswordEncoder, text: str) -> str | None:
    try:
        return encoder.decode(text)
    except PasswordEncodingError:
        return None
