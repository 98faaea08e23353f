"""Which topics and groups are mirrored, and what they are called at the target. No I/O."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_INTERNAL: Final = re.compile(r"__.*|\..*|.*[.-]internal|.*\.replica")
_GROUPS_LEFT_OUT: Final = re.compile(r"console-consumer-.*|connect-.*|__.*|perf-consumer-.*")
_SETTINGS_LEFT_OUT: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)
"""Settings that are not mirrored, as in MirrorMaker 2; those of timestamps, since records keep theirs."""

_INTERNAL_FACTOR: Final = 3  # MirrorMaker 2's
IDENTITY: Final = "identity"
PREFIX: Final = "prefix"


@dataclass(frozen=True, slots=True)
class Selection:
    """What one flow mirrors.

    Attributes:
        include: Topics whose whole names match.
        exclude: ... but not these; None for none.
        groups: Groups whose whole names match.
        naming: `IDENTITY`: topics keep their names; `PREFIX`: ``<source>.<topic>``.
        source: The source's alias.
        target: The target's alias.
    """

    include: re.Pattern[str]
    exclude: re.Pattern[str] | None = None
    groups: re.Pattern[str] = field(default_factory=lambda: re.compile(".*"))
    naming: str = IDENTITY
    source: str = "source"
    target: str = "target"

    def takes_topic(self, name: str) -> bool:
        """Return whether a topic is mirrored: not an internal one, nor one that came from the target."""
        if _INTERNAL.fullmatch(name) or not self.include.fullmatch(name):
            return False
        if self.naming == PREFIX and name.startswith(f"{self.target}."):
            return False
        return self.exclude is None or not self.exclude.fullmatch(name)

    def takes_group(self, group_id: str) -> bool:
        """Return whether a group's offsets are translated."""
        return bool(self.groups.fullmatch(group_id)) and not _GROUPS_LEFT_OUT.fullmatch(group_id)

    def target_name(self, topic: str) -> str:
        """Return the name of a source's topic at the target."""
        return f"{self.source}.{topic}" if self.naming == PREFIX else topic


def mirrored_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the topic's own settings that the target's topic gets."""
    return {name: value for name, value in settings.items() if name not in _SETTINGS_LEFT_OUT}


@dataclass(frozen=True, slots=True)
class TopicShape:
    """A topic's partitions and its own settings."""

    partitions: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What brings one target topic in step.

    Attributes:
        topic: Its name at the target.
        create: How many partitions to create it with; 0 where it exists.
        grow: How many partitions it should have; 0 where it has enough.
        settings: Settings to set, by name.
        unset: Settings to remove.
        too_many: Partitions that it has beyond the source's; they stay.
    """

    topic: str
    create: int = 0
    grow: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    too_many: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether the topic is in step."""
        return not (self.create or self.grow or self.settings or self.unset)

    def __str__(self) -> str:
        parts = []
        if self.create:
            parts.append(f"create with {self.create} partitions")
        if self.grow:
            parts.append(f"grow to {self.grow} partitions")
        parts += [f"set {name}={value}" for name, value in sorted(self.settings.items())]
        parts += [f"unset {name}" for name in self.unset]
        if self.too_many:
            parts.append(f"{self.too_many} partitions more than the source: left as they are")
        return f"{self.topic}: {', '.join(parts) or 'in step'}"


def plan_topics(
    selection: Selection, source: Mapping[str, TopicShape], target: Mapping[str, TopicShape]
) -> list[TopicChange]:
    """Return what brings the target's topics in step with the source's, sorted by name.

    Args:
        selection: What is mirrored.
        source: The source's topics, of which only those that are mirrored count.
        target: The target's topics.
    """
    changes = []
    for name in sorted(filter(selection.takes_topic, source)):
        wanted = mirrored_settings(source[name].settings)
        called = selection.target_name(name)
        found = target.get(called)
        if found is None:
            changes.append(TopicChange(called, create=source[name].partitions, settings=wanted))
            continue
        has = mirrored_settings(found.settings)
        surplus = found.partitions - source[name].partitions
        changes.append(
            TopicChange(
                called,
                grow=source[name].partitions if surplus < 0 else 0,
                settings={key: value for key, value in wanted.items() if has.get(key) != value},
                unset=tuple(sorted(has.keys() - wanted.keys())),
                too_many=max(surplus, 0),
            )
        )
    return changes


def checkpoint_due(before: tuple[int, int] | None, upstream: int, downstream: int) -> bool:
    """Return whether a checkpoint is written: the group advanced at the target, or was rewound at the source.

    Args:
        before: The offsets of the last checkpoint, at the source and at the target; None without one.
        upstream: The group's offset at the source.
        downstream: Its translation.
    """
    return before is None or downstream > before[1] or upstream < before[0]


def internal_factor(asked: int | None, live_brokers: int) -> int:
    """Return the replication factor of one of the mirror's own topics.

    MirrorMaker 2 asks for three replicas whatever the cluster, and fails where it has fewer brokers.

    Args:
        asked: What the user asks for; the cluster refuses it where it has too few brokers.
        live_brokers: How many the cluster of the topic has.
    """
    return min(_INTERNAL_FACTOR, max(live_brokers, 1)) if asked is None else asked


def compile_names(texts: Iterable[str]) -> re.Pattern[str]:
    """Compile a list of names or regular expressions, by commas.

    Raises:
        ValueError: One is not a regular expression.
    """
    joined = "|".join(part.strip() for text in texts for part in text.split(",") if part.strip())
    try:
        return re.compile(joined)
    except re.error as error:
        raise ValueError(f"{joined!r} is no regular expression: {error}") from None
