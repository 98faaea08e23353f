"""Values that a broker's file takes from elsewhere: `${provider:path:key}`, and Kafka's three providers of them.

    config.providers=env,file,dir
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
    broker.rack=${env:ZONE}
    ssl.keystore.password=${file:/etc/kafka/secrets.properties:keystore}
    ssl.key.password=${dir:/etc/kafka/secrets:key-password}

Kafka leaves a reference unresolved if its provider does not know the key, and the broker then has a password of
`${...}`: here it is refused. A reference that names no configured provider is left as it is, as in Kafka.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from cluster.configuration.errors import ConfigError
from cluster.configuration.properties import read_properties

PROVIDERS: Final = "config.providers"
_PREFIX: Final = "config.providers."
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}:]*(?::[^}:]*)*?):)?([^}:]*)\}")
"""A provider's name, perhaps a path, and a key; the path may hold colons, the key may not."""

Lookup = Callable[[str, str], str]
"""Returns the value of a path and a key; raises LookupError with the reason."""


def resolve_references(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with their references resolved, without the settings of the providers.

    Args:
        properties: As the file and the command line give them.
        environment: The environment variables.

    Raises:
        ConfigError: a provider is not one of Kafka's three, or does not know a path or key.
    """
    names = [name.strip() for name in properties.get(PROVIDERS, "").split(",") if name.strip()]
    lookups = {name: _provider(name, properties, environment) for name in names}
    return {
        name: _resolved(name, value, lookups)
        for name, value in properties.items()
        if name != PROVIDERS and not name.startswith(_PREFIX)
    }


def _resolved(name: str, value: str, lookups: Mapping[str, Lookup]) -> str:
    def look_up(found: re.Match[str]) -> str:
        provider, path, key = found[1], found[2] or "", found[3]
        lookup = lookups.get(provider)
        if lookup is None:
            return found[0]
        try:
            return lookup(path, key)
        except LookupError as error:
            raise ConfigError(name, found[0], f"a reference that resolves, but {error.args[0]}") from None

    return _REFERENCE.sub(look_up, value)


def _provider(name: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> Lookup:
    class_setting = f"{_PREFIX}{name}.class"
    class_name = properties.get(class_setting)
    if class_name is None:
        raise ConfigError(class_setting, None, f"the class of the provider {name} of {PROVIDERS}")
    parameters = f"{_PREFIX}{name}.param."
    match class_name.strip().rpartition(".")[2]:
        case "EnvVarConfigProvider":
            return _from_environment(environment, properties.get(f"{parameters}allowlist.pattern"))
        case "FileConfigProvider":
            return _from_file(_allowed(properties.get(f"{parameters}allowed.paths")))
        case "DirectoryConfigProvider":
            return _from_directory(_allowed(properties.get(f"{parameters}allowed.paths")))
    raise ConfigError(
        class_setting,
        class_name,
        "EnvVarConfigProvider, FileConfigProvider or DirectoryConfigProvider: other Java classes cannot be loaded",
    )


def _from_environment(environment: Mapping[str, str], pattern: str | None) -> Lookup:
    def look_up(path: str, key: str) -> str:
        if path:
            raise LookupError("the environment has no paths")
        if pattern is not None and re.fullmatch(pattern, key) is None:
            raise LookupError(f"allowlist.pattern={pattern} does not match {key}")
        if key not in environment:
            raise LookupError(f"there is no environment variable {key}")
        return environment[key]

    return look_up


def _from_file(is_allowed: Callable[[Path], bool]) -> Lookup:
    def look_up(path: str, key: str) -> str:
        file = _file(path, is_allowed)
        try:
            values = read_properties(file)
        except ConfigError as error:
            raise LookupError(str(error)) from None
        if key not in values:
            raise LookupError(f"{file} holds no {key}")
        return values[key]

    return look_up


def _from_directory(is_allowed: Callable[[Path], bool]) -> Lookup:
    def look_up(path: str, key: str) -> str:
        if Path(key).name != key:
            raise LookupError(f"{key} is no name of a file in a directory")
        file = _file(path, is_allowed) / key
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LookupError(f"{file} cannot be read: {error}") from None

    return look_up


def _file(path: str, is_allowed: Callable[[Path], bool]) -> Path:
    if not path:
        raise LookupError("it names no path")
    if not is_allowed(Path(path)):
        raise LookupError(f"allowed.paths does not include {path}")
    return Path(path)


def _allowed(paths: str | None) -> Callable[[Path], bool]:
    """Return a predicate: whether a path is inside one of the allowed paths; without any, every path is allowed."""
    if not paths:
        return lambda _: True
    roots = [Path(part.strip()).resolve() for part in paths.split(",") if part.strip()]
    return lambda path: any(path.resolve().is_relative_to(root) for root in roots)
