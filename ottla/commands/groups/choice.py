"""Which groups and partitions a command is about."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.commands.terminal.failure import CommandError
from wire.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin, GroupDescription


async def chosen_groups(admin: "Admin", options: Mapping[str, Any]) -> list[str]:
    """Return the groups that ``--group`` and ``--all-groups`` name."""
    if options["all_groups"]:
        return [group.group_id for group in await admin.list_groups()]
    return list(dict.fromkeys(options["group"]))


async def chosen_partitions(admin: "Admin", topics: Sequence[str]) -> list[TopicPartition]:
    """Read ``topic`` and ``topic:0,1``.

    Raises:
        CommandError: a list of partitions is written otherwise.
        ClientError: there is no such topic.
    """
    chosen: dict[TopicPartition, None] = {}
    for entry in topics:
        name, colon, numbers = entry.partition(":")
        if colon:
            try:
                chosen.update(dict.fromkeys(TopicPartition(name, int(each)) for each in numbers.split(",")))
            except ValueError:
                raise CommandError(f"--topic {entry!r} is not TOPIC or TOPIC:0,1,...") from None
            continue
        (topic,) = await admin.describe_topics([name])
        chosen.update(dict.fromkeys(TopicPartition(name, each.partition) for each in topic.partitions))
    return list(chosen)


def still_active(group: "GroupDescription", what: str) -> str:
    """Return why something is not done to a group that has members."""
    members = "".join(f"\n  {each.member_id} ({each.client_id}, {each.host})" for each in group.members)
    named = "member" if len(group.members) == 1 else f"{len(group.members)} members"
    return f"group {group.group_id!r} is not {what}: it is active ({group.state}); stop its {named} first:{members}"
