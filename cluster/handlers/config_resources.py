"""The resources that have configurations: topics, brokers and a broker's loggers; how each is checked and stored."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from cluster.configuration.errors import ConfigError
from cluster.configuration.stored_passwords import StoredPasswords
from cluster.configuration.topic_config import check_topic_config
from cluster.handlers.context import (
    HasBrokerId,
    HasConfig,
    HasConnectionLimits,
    HasKeyStores,
    HasMetadata,
    HasStore,
)
from cluster.handlers.failures import EXPECTED_FAILURES, failure_of
from cluster.handlers.topic_names import is_valid_topic_name
from cluster.network.connection_limits import ADDRESS_LIMITS
from cluster.zookeeper.znodes import BROKERS, DEFAULT_ENTITY, TOPICS
from wire.errors import ApiError, Error


class Describing(HasBrokerId, HasConfig, HasMetadata, HasStore, Protocol):
    """A broker that can describe the configurations of topics and brokers."""


class Altering(Describing, HasConnectionLimits, HasKeyStores, Protocol):
    """A broker that can alter these configurations."""


class ResourceType(IntEnum):
    """The types of resources; the numbers are those of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


class Entity(NamedTuple):
    """Where the configuration of a resource is stored.

    Attributes:
        entity_type: The kind of entity in ZooKeeper.
        name: Its name there.
    """

    entity_type: str
    name: str


def entity_of(broker: Describing, resource_type: int, name: str) -> Entity:
    """Return where the configuration of a topic or broker is stored.

    An empty broker name stands for the default of all brokers.

    Raises:
        ApiError: the topic does not exist, the broker is another one, or the type has no stored configuration.
    """
    if resource_type == ResourceType.TOPIC:
        if not name:
            raise ApiError(
                Error.INVALID_REQUEST, "there are no defaults for topics: they are the broker's settings"
            )
        require_topic(broker, name)
        return Entity(TOPICS, name)
    if resource_type == ResourceType.BROKER:
        if not name:
            return Entity(BROKERS, DEFAULT_ENTITY)
        require_this_broker(broker, name)
        return Entity(BROKERS, str(broker.broker_id))
    raise ApiError(
        Error.INVALID_REQUEST, f"resources of the kind {resource_type} have no configuration to alter"
    )


def require_topic(broker: HasMetadata, name: str) -> None:
    """Check that a topic exists.

    Raises:
        ApiError: it does not, or no topic can have this name.
    """
    if not is_valid_topic_name(name):
        raise ApiError(Error.INVALID_TOPIC_EXCEPTION, f"{name!r} is no name for a topic")
    if name not in broker.metadata.snapshot.topics:
        raise ApiError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {name} does not exist")


def require_this_broker(broker: HasBrokerId, name: str) -> None:
    """Check that a broker resource is this broker: a broker answers for itself only.

    Raises:
        ApiError: it is another one, or not a number.
    """
    try:
        asked = int(name)
    except ValueError:
        raise ApiError(Error.INVALID_REQUEST, f"a broker id is a number, not {name!r}") from None
    if asked != broker.broker_id:
        raise ApiError(Error.INVALID_REQUEST, f"this is the broker {broker.broker_id}, not {asked}")


class ResourceChange(Protocol):
    """The changes that a request makes to one resource; each of the two requests has its own messages for them."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def configs(self) -> Sequence[Any]: ...


ResourceChangeT = TypeVar("ResourceChangeT", bound=ResourceChange)
AnswerT = TypeVar("AnswerT")


async def alter_each(
    changes: Sequence[ResourceChangeT],
    alter: Callable[[ResourceChangeT], Awaitable[None]],
    answer: Callable[..., AnswerT],
    *,
    lacks_value: Callable[[Any], bool],
) -> list[AnswerT]:
    """Alter each resource by itself, and answer for each; one that cannot be altered has its own error.

    Args:
        changes: What is asked for.
        alter: Makes one change.
        answer: Makes the answer for one resource.
        lacks_value: Whether a setting in a change lacks a value that it needs.
    """
    counts = Counter((change.resource_type, change.resource_name) for change in changes)
    answers = []
    for change in changes:
        code, message = 0, None
        try:
            if counts[change.resource_type, change.resource_name] > 1:
                raise ApiError(Error.INVALID_REQUEST, "Each resource must appear at most once.")
            incomplete = [config.name for config in change.configs if lacks_value(config)]
            check_entries([config.name for config in change.configs], incomplete)
            await alter(change)
        except EXPECTED_FAILURES as exception:
            failure = failure_of(exception)
            code, message = failure.code, failure.message
        answers.append(
            answer(
                error_code=code,
                error_message=message,
                resource_type=change.resource_type,
                resource_name=change.resource_name,
            )
        )
    return answers


def check_entries(names: Sequence[str], names_without_value: Sequence[str]) -> None:
    """Check the form of a request's entries for one resource, in Kafka's order and with its messages.

    Raises:
        ApiError: a setting is named twice, or a value is missing.
    """
    if len(set(names)) < len(names):
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        raise ApiError(Error.INVALID_REQUEST, f"Error due to duplicate config keys: {', '.join(twice)}")
    if names_without_value:
        raise ApiError(
            Error.INVALID_REQUEST, f"Null value not supported for : {', '.join(names_without_value)}"
        )


async def change_entity(
    broker: Altering,
    entity: Entity,
    change: Callable[[dict[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
) -> None:
    """Check a change of an entity's configuration against what is stored, and store it.

    Args:
        broker: The broker.
        entity: Whose configuration.
        change: Returns the new configuration for the present one; called again after a conflicting write.
        validate_only: Whether to check only.

    Raises:
        ConfigError: a topic's new configuration is invalid.
        ApiError: the change cannot be made, or a broker's new configuration is invalid.
        ZooKeeperError: it could not be stored.
    """

    passwords = StoredPasswords(broker.config)

    def checked(stored: dict[str, str]) -> Mapping[str, str]:
        if entity.entity_type == TOPICS:
            changed = change(stored)
            check_topic_config(changed)
            return changed
        changed = change(stored | passwords.decoded(stored))
        _check_dynamic(broker, changed, per_broker=entity.name != DEFAULT_ENTITY)
        return _encoded(passwords, changed, stored)

    if entity.entity_type == BROKERS:
        await _look_around(broker, entity, change, passwords)
    if validate_only:
        present, _ = await broker.store.read_config(entity.entity_type, entity.name)
        checked(dict(present))
    else:
        await broker.store.change_config(entity.entity_type, entity.name, checked)


def _check_dynamic(broker: Altering, values: Mapping[str, str], *, per_broker: bool) -> None:
    try:
        broker.config.check_dynamic(values, per_broker=per_broker)
    except ConfigError as error:
        # Kafka answers INVALID_CONFIG for topics only, and keeps this code for compatibility (KAFKA-13609).
        raise ApiError(Error.INVALID_REQUEST, str(error)) from error


def _encoded(
    passwords: StoredPasswords, values: Mapping[str, str], stored: Mapping[str, str]
) -> Mapping[str, str]:
    try:
        return passwords.encoded(values, stored)
    except ConfigError as error:
        raise ApiError(Error.INVALID_REQUEST, str(error)) from None


async def _look_around(
    broker: Altering,
    entity: Entity,
    change: Callable[[dict[str, str]], Mapping[str, str]],
    passwords: StoredPasswords,
) -> None:
    """Check the parts of a change that need the network or files, before it is stored."""
    present, _ = await broker.store.read_config(entity.entity_type, entity.name)
    changed = change(present | passwords.decoded(present))
    if broker.key_stores is not None and entity.name != DEFAULT_ENTITY:
        _check_dynamic(broker, changed, per_broker=True)
        try:
            await broker.key_stores.check(changed)
        except ConfigError as error:
            raise ApiError(Error.INVALID_REQUEST, str(error)) from None
    hosts = changed.get(ADDRESS_LIMITS)
    if hosts is not None and hosts != present.get(ADDRESS_LIMITS):
        await broker.connection_limits.check(hosts)
