"""The options of a group, with defaults, and the group that is made of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Required

from ottla.client.assignors import ASSIGNORS
from ottla.client.codecs import Topic, as_topic
from ottla.client.context import ClientContext
from ottla.client.group import Group
from ottla.client.group_settings import Done, GroupSettings
from ottla.client.membership import Membership
from ottla.client.offset_commits import CommittedOffset
from ottla.client.positions import Starts, check_starts
from ottla.client.reader_options import FetchOptions, fetch_settings
from wire.types import TopicPartition


class GroupOptions(FetchOptions, total=False):
    """The arguments of `Kafka.group`, besides those of `FetchOptions`; times in seconds.

    Attributes:
        start: Where to begin where nothing is committed: EARLIEST, LATEST, Tail(n), a time. Partitions that are added
            to a topic later begin at EARLIEST.
        done: EXPLICIT: a batch is done when `Batch.done` or `Record.done` says so; else when the next is asked for.
        commit_interval: How often done offsets are committed (5); None: only at releases and by `Group.commit`.
        commits: Whether anything is committed (True); False leaves the group's offsets as they are.
        instance_id: Makes the member static (KIP-345): back within the session timeout, it gets its partitions.
        leave: Whether to leave the group at the end; None: yes, unless static.
        assignors: cooperative-sticky (the default), sticky, range, roundrobin; the preferred first. A group moves
            from eager to cooperative by two rolling restarts, the first with both.
        session_timeout: Without heartbeats for this long, the coordinator drops the member (45).
        heartbeat_interval: Between heartbeats (3).
        rebalance_timeout: How long work on a partition may take to end (60).
        stall_timeout: Leave the group if no batch is asked for in this time (None: never); batches in hand are
            lost then, and tasks of `Group.run` cancelled. It joins again once a batch is asked for. Java's
            ``max.poll.interval.ms``.
        on_commit: See the offsets of each commit.
    """

    start: Required[Starts]
    done: Done
    commit_interval: float | None
    commits: bool
    instance_id: str | None
    leave: bool | None
    assignors: Sequence[str]
    session_timeout: float
    heartbeat_interval: float
    rebalance_timeout: float
    stall_timeout: float | None
    on_commit: Sequence[Callable[[Mapping[TopicPartition, CommittedOffset]], None]]


def make_group(context: ClientContext, group_id: str, topics: Any, **options: Any) -> Group[Any, Any]:
    """Make a member of a group.

    Raises:
        TypeError: An option is missing or unknown.
        ValueError: There is no such assignor, or no topic.
    """
    fetching = fetch_settings(options)
    if "start" not in options:
        raise TypeError("start= must be given: EARLIEST, LATEST, Tail(n), or a time")
    check_starts(options["start"])
    names = options.pop("assignors", ("cooperative-sticky",))
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown or not names:
        raise ValueError(f"no assignor {', '.join(unknown) or 'is given'}: there are {', '.join(ASSIGNORS)}")
    pattern = topics if isinstance(topics, re.Pattern) else None
    listed: list[Topic[Any, Any]] = []
    if pattern is None:
        listed = [as_topic(each) for each in ([topics] if isinstance(topics, str | Topic) else topics)]
        if not listed:
            raise ValueError("a group subscribes to at least one topic")
    membership = Membership(
        group_id, options.pop("instance_id", None), [ASSIGNORS[name] for name in names], context.settings.rack
    )
    return Group(context, membership, listed, pattern, fetching, GroupSettings(**options))
