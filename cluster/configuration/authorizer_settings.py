"""The settings of the authorizer, which in Kafka are not broker settings: its authorizer reads them itself."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from cluster.configuration.errors import ConfigError

AUTHORIZER_CLASSES: Final = frozenset(
    {"kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"}
)
"""Kafka's names of the one authorizer that is served: it keeps its rules in ZooKeeper."""
SUPER_USERS: Final = "super.users"
ALLOW_WITHOUT_RULES: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER_URL: Final = "authorizer.zookeeper.url"
_PREFIX: Final = "authorizer.zookeeper."


class Settings(Protocol):
    """The broker settings that this module reads; `BrokerConfig` has them."""

    originals: Mapping[str, str]

    @property
    def authorizer_class_name(self) -> str:
        """``authorizer.class.name``."""
        ...

    @property
    def zookeeper_connect(self) -> str:
        """``zookeeper.connect``."""
        ...


class AuthorizerSettings(NamedTuple):
    """The settings of an authorizer.

    Attributes:
        super_users: The principals that may do everything.
        allow_without_rules: Whether everybody may use a resource without rules.
    """

    super_users: tuple[str, ...]
    allow_without_rules: bool


def is_authorizer_setting(name: str) -> bool:
    """Whether a setting is the authorizer's own."""
    return name in (SUPER_USERS, ALLOW_WITHOUT_RULES) or name.startswith(_PREFIX)


def authorizer_settings(config: Settings) -> AuthorizerSettings | None:
    """Return the settings of the configured authorizer; None if there is none.

    Raises:
        ConfigError: the class is not Kafka's, a super user is not `Type:name`, or the rules would be kept in another
            ZooKeeper than the broker's.
    """
    originals = config.originals
    class_name = config.authorizer_class_name.strip()
    if not class_name:
        return None
    if class_name not in AUTHORIZER_CLASSES:
        raise ConfigError(
            "authorizer.class.name", class_name, "no value, or kafka.security.authorizer.AclAuthorizer"
        )
    url = originals.get(AUTHORIZER_URL, "").strip()
    if url and url != config.zookeeper_connect:
        raise ConfigError(AUTHORIZER_URL, url, "no value: rules are kept in the broker's own ZooKeeper")
    flag = originals.get(ALLOW_WITHOUT_RULES, "false").strip().lower()
    if flag not in ("true", "false"):
        raise ConfigError(ALLOW_WITHOUT_RULES, flag, "true or false")
    return AuthorizerSettings(_super_users(originals.get(SUPER_USERS, "")), flag == "true")


def _super_users(text: str) -> tuple[str, ...]:
    """Read principals separated by semicolons, because distinguished names contain commas."""
    entries = tuple(entry.strip() for entry in text.split(";") if entry.strip())
    for entry in entries:
        kind, colon, name = entry.partition(":")
        if not (colon and kind and name):
            raise ConfigError(SUPER_USERS, entry, "principals as Type:name, between semicolons")
    return entries
