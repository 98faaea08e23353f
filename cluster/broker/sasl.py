"""The SASL of each listener, from the configuration: checked at start, so that a wrong setting stops it."""

import hashlib
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cluster.configuration.errors import ConfigError
from cluster.configuration.listener_names import own_setting
from cluster.security.bearer_tokens import (
    SignedRules,
    SigningKeys,
    UnsecuredRules,
    Validate,
    validate_signed,
    validate_unsecured,
)
from cluster.security.sasl_exchange import AnswerVersions, SaslSettings
from cluster.security.sasl_mechanisms import (
    OauthBearerServer,
    PlainServer,
    SaslServer,
    ScramDirectory,
    ScramServer,
    TokenLogin,
)
from security.errors import SecurityConfigError
from security.jaas import JaasEntry, parse_jaas
from security.sasl_client import MECHANISMS, OAUTHBEARER, PLAIN, SaslCredentials, credentials_from_jaas
from security.scram import ScramCredential, ScramMechanism

if TYPE_CHECKING:
    from cluster.configuration.broker_config import BrokerConfig

logger = logging.getLogger(__name__)

JAAS: Final = "sasl.jaas.config"
SERVED: Final = MECHANISMS
_HANDLER: Final = "sasl.server.callback.handler.class"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
_SIGNED_HANDLERS: Final = (
    _OAUTH + "OAuthBearerValidatorCallbackHandler",
    _OAUTH + "secured.OAuthBearerValidatorCallbackHandler",
)
_UNSECURED_HANDLER: Final = _OAUTH + "internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_USER_OPTION: Final = "user_"


@dataclass(frozen=True, slots=True)
class Identities:
    """Where a broker finds the users of its SASL mechanisms.

    Attributes:
        find_user: The SCRAM credential of a user.
        find_token: The login of a delegation token, by its id.
        wall_ms: The wall clock.
        make_keys: Makes, and keeps up, the key set at a URL; given its refresh, retry and longest retry
            times in seconds.
    """

    find_user: Callable[[ScramMechanism, str], ScramCredential | None]
    find_token: Callable[[ScramMechanism, str], TokenLogin | None]
    wall_ms: Callable[[], int]
    make_keys: Callable[[str, float, float, float], SigningKeys]


def sasl_settings(
    config: "BrokerConfig", listener: str, identities: Identities, answer_versions: AnswerVersions
) -> SaslSettings:
    """Return the SASL settings of a listener.

    Raises:
        ConfigError: a mechanism is not served, or lacks its JAAS entry.
    """
    names = _mechanisms(config, listener)
    directory = ScramDirectory(
        identities.find_user, identities.find_token, secrets.token_bytes(32), new_nonce
    )
    return SaslSettings(
        mechanisms={name: _server(config, listener, name, directory, identities) for name in names},
        max_session_ms={name: _session_ms(config, listener, name) for name in names},
        answer_versions=answer_versions,
        wall_ms=identities.wall_ms,
    )


def own_credentials(config: "BrokerConfig", listener: str, wall_ms: Callable[[], int]) -> SaslCredentials:
    """Return the credentials by which this broker logs in to a SASL listener of other brokers.

    Raises:
        ConfigError: the mechanism is not enabled there, or its JAAS entry lacks user and password.
    """
    mechanism = config.sasl_mechanism_inter_broker_protocol
    enabled = _mechanisms(config, listener)
    if mechanism not in enabled:
        raise ConfigError(
            "sasl.mechanism.inter.broker.protocol",
            mechanism,
            f"one of the mechanisms of the listener {listener}: {', '.join(enabled)}",
        )
    key = own_setting(listener, f"{mechanism.lower()}.{JAAS}")
    try:
        entry = _entry(config, listener, mechanism)
        return credentials_from_jaas(mechanism, entry, new_nonce, wall_ms, key)
    except SecurityConfigError as error:
        raise ConfigError(error.key, None, error.reason) from None


def new_nonce() -> str:
    """Return fresh randomness for one exchange of SCRAM."""
    return secrets.token_urlsafe(24)


def _mechanisms(config: "BrokerConfig", listener: str) -> tuple[str, ...]:
    given = config.of_listener(listener, "sasl.enabled.mechanisms")
    names = given if isinstance(given, tuple) else ()
    for name in names:
        if name not in SERVED:
            raise ConfigError(
                "sasl.enabled.mechanisms", ",".join(names), f"mechanisms that are served: {', '.join(SERVED)}"
            )
    if not names:
        raise ConfigError("sasl.enabled.mechanisms", "", f"at least one mechanism of {', '.join(SERVED)}")
    return tuple(dict.fromkeys(names))


def _server(
    config: "BrokerConfig", listener: str, name: str, directory: ScramDirectory, identities: Identities
) -> Callable[[], SaslServer]:
    handler = config.of_mechanism(listener, name, _HANDLER)
    if name == OAUTHBEARER:
        return partial(OauthBearerServer, _validator(config, listener, handler, identities))
    if handler is not None:
        raise ConfigError(
            own_setting(listener, f"{name.lower()}.{_HANDLER}"),
            str(handler),
            f"no value: Java classes cannot check the users of {name}",
        )
    if name == PLAIN:
        return partial(PlainServer, _plain_passwords(config, listener))
    return partial(ScramServer, ScramMechanism(name), directory)


def _validator(config: "BrokerConfig", listener: str, handler: object, identities: Identities) -> Validate:
    """Return the validator of bearer tokens: one of Kafka's two classes, by its name."""
    if handler in (None, _UNSECURED_HANDLER):
        return _unsecured_validator(config, listener, identities)
    if handler not in _SIGNED_HANDLERS:
        raise ConfigError(
            own_setting(listener, f"oauthbearer.{_HANDLER}"),
            str(handler),
            f"{_SIGNED_HANDLERS[0]}, or no value",
        )

    def value(name: str) -> Any:
        return config.of_mechanism(listener, OAUTHBEARER, name)

    url = value("sasl.oauthbearer.jwks.endpoint.url")
    if not isinstance(url, str) or not url.startswith(("https://", "file:")):
        raise ConfigError("sasl.oauthbearer.jwks.endpoint.url", url, "an https: or file: URL of a key set")
    keys = identities.make_keys(
        url,
        value("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
    )
    rules = SignedRules(
        subject_claim=value("sasl.oauthbearer.sub.claim.name"),
        scope_claim=value("sasl.oauthbearer.scope.claim.name"),
        issuer=value("sasl.oauthbearer.expected.issuer"),
        audience=value("sasl.oauthbearer.expected.audience") or (),
        clock_skew_ms=value("sasl.oauthbearer.clock.skew.seconds") * 1000,
    )
    return lambda token: validate_signed(token, rules, keys, identities.wall_ms())


def _unsecured_validator(config: "BrokerConfig", listener: str, identities: Identities) -> Validate:
    """Return a validator that accepts unsigned tokens, with the options of the JAAS entry: for development."""
    logger.warning(
        "the listener %s takes unsigned OAUTHBEARER tokens: anybody who reaches it may be anybody", listener
    )
    options: Mapping[str, str] = {}
    if config.own_of_mechanism(listener, OAUTHBEARER, JAAS) is not None:
        try:
            options = _entry(config, listener, OAUTHBEARER).options
        except SecurityConfigError as error:
            raise ConfigError(error.key, None, error.reason) from None
    prefix = "unsecuredValidator"
    skew = options.get(prefix + "AllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ConfigError(own_setting(listener, f"oauthbearer.{JAAS}"), None, "a clock skew in milliseconds")
    rules = UnsecuredRules(
        principal_claim=options.get(prefix + "PrincipalClaimName", "sub"),
        scope_claim=options.get(prefix + "ScopeClaimName", "scope"),
        required_scope=options.get(prefix + "RequiredScope", "").split(),
        clock_skew_ms=int(skew),
    )
    return lambda token: validate_unsecured(token, rules, identities.wall_ms())


def _plain_passwords(config: "BrokerConfig", listener: str) -> Mapping[str, bytes]:
    """Return the digest of each user's password."""
    try:
        entry = _entry(config, listener, PLAIN)
    except SecurityConfigError as error:
        raise ConfigError(error.key, None, error.reason) from None
    return {
        option.removeprefix(_USER_OPTION): hashlib.sha256(password.encode()).digest()
        for option, password in entry.options.items()
        if option.startswith(_USER_OPTION)
    }


def _entry(config: "BrokerConfig", listener: str, mechanism: str) -> JaasEntry:
    key = own_setting(listener, f"{mechanism.lower()}.{JAAS}")
    text = config.own_of_mechanism(listener, mechanism, JAAS)
    if not isinstance(text, str):
        raise SecurityConfigError(
            key,
            f"the JAAS entry of {mechanism} is missing; no JVM reads a java.security.auth.login.config here",
        )
    return parse_jaas(text, key)


def _session_ms(config: "BrokerConfig", listener: str, mechanism: str) -> int:
    value = config.of_mechanism(listener, mechanism, "connections.max.reauth.ms")
    return value if isinstance(value, int) else 0
