"""The lines of kafka-configs."""

from collections.abc import Iterator, Sequence

from ottla.client.admin import ConfigResource, ConfigSource, ConfigValue, ResourceKind

_PLURALS = {
    ResourceKind.TOPIC: "topics",
    ResourceKind.BROKER: "brokers",
    ResourceKind.BROKER_LOGGER: "broker-loggers",
}
_DYNAMIC = {
    ResourceKind.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ResourceKind.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
}


def resource_lines(
    resource: ConfigResource, values: Sequence[ConfigValue], *, show_all: bool
) -> Iterator[str]:
    """Yield the settings of one resource: all, or those that were set at run time."""
    plural = _PLURALS[resource.kind]
    is_default = resource.kind is ResourceKind.BROKER and resource.name == ""
    if is_default:
        yield f"Default configs for {plural} in the cluster are:"
    else:
        yield f"{'All' if show_all else 'Dynamic'} configs for {plural[:-1]} {resource.name} are:"
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if is_default else _DYNAMIC.get(resource.kind)
    for value in sorted(values, key=lambda each: each.name):
        if show_all or source is None or value.source is source:
            synonyms = ", ".join(
                f"{each.source.name}:{each.name}={_text(each.value)}" for each in value.synonyms
            )
            sensitive = "true" if value.is_sensitive else "false"
            yield f"  {value.name}={_text(value.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def completed_line(resource: ConfigResource) -> str:
    """Return what is printed when settings were changed."""
    plural = _PLURALS[resource.kind]
    if resource.name == "":
        return f"Completed updating default config for {plural} in the cluster."
    return f"Completed updating config for {plural[:-1]} {resource.name}."


def _text(value: str | None) -> str:
    return "null" if value is None else value
