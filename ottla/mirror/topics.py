"""Creating the target's topics, and keeping them in step with the source's."""

from collections.abc import Callable, Mapping, Sequence

from ottla.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceKind,
)
from ottla.mirror.selection import Selection, TopicChange, TopicShape, plan_topics


class TopicKeeper:
    """Compares the topics of both clusters, and changes those of the target.

    Args:
        source: The source.
        target: The target.
        selection: What is mirrored.
        replication_factor: For topics that are created; -1 for the target's default.
        keeps_settings: Whether the settings of topics that exist are changed.
    """

    def __init__(
        self,
        source: Admin,
        target: Admin,
        selection: Selection,
        *,
        replication_factor: int = -1,
        keeps_settings: bool = True,
    ) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._replication_factor = replication_factor
        self._keeps_settings = keeps_settings

    async def look(self) -> tuple[dict[str, int], list[TopicChange]]:
        """Return the partitions of the topics that are mirrored, by their names at the source, and what to change."""
        selection = self._selection
        found = await _shapes(self._source, selection.takes_topic)
        names = {selection.target_name(name) for name in found}
        changes = plan_topics(selection, found, await _shapes(self._target, names.__contains__))
        return {name: shape.partitions for name, shape in found.items()}, changes

    async def apply(self, changes: Sequence[TopicChange]) -> list[TopicChange]:
        """Apply the changes; return what was changed."""
        target = self._target
        new = [
            NewTopic(each.topic, each.create, self._replication_factor, configs=dict(each.settings))
            for each in changes
            if each.create
        ]
        if new:
            await target.create_topics(new)
        grown = {each.topic: each.grow for each in changes if each.grow}
        if grown:
            await target.create_partitions(grown)
        altered: Mapping[ConfigResource, list[ConfigChange]] = {
            ConfigResource(ResourceKind.TOPIC, each.topic): [
                *(ConfigChange(name, ConfigOperation.SET, value) for name, value in each.settings.items()),
                *(ConfigChange(name, ConfigOperation.DELETE) for name in each.unset),
            ]
            for each in changes
            if not each.create and (each.settings or each.unset) and self._keeps_settings
        }
        if altered:
            await target.alter_configs(altered)
        return [
            each
            for each in changes
            if each.create or each.grow or ((each.settings or each.unset) and self._keeps_settings)
        ]


async def _shapes(admin: Admin, takes: Callable[[str], bool]) -> dict[str, TopicShape]:
    topics = [topic for topic in await admin.describe_topics(None) if takes(topic.name)]
    if not topics:
        return {}
    resources = [ConfigResource(ResourceKind.TOPIC, topic.name) for topic in topics]
    settings = await admin.describe_configs(resources)
    return {
        topic.name: TopicShape(
            len(topic.partitions),
            {
                each.name: each.value
                for each in settings[resource]
                if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG and each.value is not None
            },
        )
        for topic, resource in zip(topics, resources, strict=True)
    }
