"""What a mirror decides: names, topics' changes, translated offsets, and the bytes of MirrorMaker 2."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.admin.acls import Acl
from ottla.mirror.access import mirrored_acls, missing_quotas
from ottla.mirror.formats import (
    Checkpoint,
    FormatError,
    Heartbeat,
    OffsetSync,
    checkpoints_topic,
    offset_syncs_topic,
)
from ottla.mirror.offset_map import RUNS_MAX, OffsetMap
from ottla.mirror.selection import (
    PREFIX,
    Selection,
    TopicChange,
    TopicShape,
    checkpoint_due,
    compile_names,
    internal_factor,
    plan_topics,
)
from ottla.mirror.throttle import Throttle
from wire.acl_codes import Operation, PatternType, Permission, ResourceType
from wire.types import TopicPartition

T0 = TopicPartition("t", 0)


def test_the_bytes_of_mirror_maker_2() -> None:
    sync = OffsetSync(TopicPartition("ab", 3), 5, 7)
    assert sync.encode() == (b"\0\x02ab\0\0\0\x03", b"\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x07")
    assert OffsetSync.decode(*sync.encode()) == sync
    point = Checkpoint("g", TopicPartition("a.t", 1), 9, 8, "m")
    assert point.encode() == (
        b"\0\x01g\0\x03a.t\0\0\0\x01",
        b"\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x08\0\x01m",
    )
    assert Checkpoint.decode(*point.encode()) == point
    beat = Heartbeat("a", "b", 1)
    assert beat.encode() == (b"\0\x01a\0\x01b", b"\0\0\0\0\0\0\0\0\0\x01")
    assert Heartbeat.decode(*beat.encode()) == beat
    assert offset_syncs_topic("b") == "mm2-offset-syncs.b.internal"
    assert checkpoints_topic("a") == "a.checkpoints.internal"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\x02a", b""),
        (b"\0\x01a\0\0\0\0", b"\0"),
        (b"\0\x01\xff\0\0\0\0", bytes(16)),
        (b"", None),
    ],
)
def test_other_bytes_are_refused(key, value) -> None:
    with pytest.raises(FormatError):
        OffsetSync.decode(key, value)


def test_a_later_version_is_refused() -> None:
    with pytest.raises(FormatError, match="version is 1"):
        Checkpoint.decode(b"\0\x01g\0\x01t\0\0\0\0", b"\0\x01" + bytes(18))


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("orders", True),
        ("__consumer_offsets", False),
        (".hidden", False),
        ("a.internal", False),
        ("a-internal", False),
        ("a.replica", False),
        ("secret", False),
        ("target.orders", True),
    ],
)
def test_topics_are_taken(name, taken) -> None:
    assert Selection(re.compile(".*"), re.compile("secret")).takes_topic(name) is taken


def test_what_came_from_the_target_does_not_go_back() -> None:
    selection = Selection(re.compile(".*"), naming=PREFIX, source="a", target="b")
    assert not selection.takes_topic("b.orders")
    assert selection.target_name("orders") == "a.orders"


def test_groups_are_taken() -> None:
    selection = Selection(re.compile(".*"), groups=re.compile("bill.*|console.*"))
    names = ("billing", "other", "console-consumer-7", "__x")
    assert [name for name in names if selection.takes_group(name)] == ["billing"]


def test_names_by_commas() -> None:
    assert compile_names(["a, b.*", "c"]).pattern == "a|b.*|c"
    with pytest.raises(ValueError, match="no regular expression"):
        compile_names(["("])


def test_topics_are_brought_in_step() -> None:
    source = {
        "new": TopicShape(3, {"retention.ms": "1", "min.insync.replicas": "2"}),
        "grown": TopicShape(4, {"a": "1", "b": "2"}),
        "same": TopicShape(1, {"c": "1"}),
        "wide": TopicShape(1, {}),
        "x.internal": TopicShape(1, {}),
    }
    target = {
        "grown": TopicShape(2, {"a": "0", "old": "1", "message.timestamp.type": "CreateTime"}),
        "same": TopicShape(1, {"c": "1"}),
        "wide": TopicShape(2, {}),
    }
    changes = plan_topics(Selection(re.compile(".*")), source, target)
    assert changes == [
        TopicChange("grown", grow=4, settings={"a": "1", "b": "2"}, unset=("old",)),
        TopicChange("new", create=3, settings={"retention.ms": "1"}),
        TopicChange("same"),
        TopicChange("wide", too_many=1),
    ]
    assert [change.is_nothing for change in changes] == [False, False, True, True]
    assert str(changes[0]) == "grown: grow to 4 partitions, set a=1, set b=2, unset old"
    assert str(changes[2]) == "same: in step"


def test_offsets_within_and_behind_what_was_copied() -> None:
    known = OffsetMap()
    assert known.translate(T0, 5) is None
    known.copied(T0, 10, 100, 5)
    known.copied(T0, 15, 105, 5)  # goes on
    known.copied(T0, 20, 111, 2)  # after a marker
    assert [known.translate(T0, each) for each in (9, 10, 17, 20, 21, 22, 30)] == [
        None,
        100,
        107,
        111,
        112,
        113,
        113,
    ]
    assert known.last_record(T0) == (21, 112)
    known.copied(T0, 3, 113, 1)  # rewound
    assert [known.translate(T0, each) for each in (2, 3, 22)] == [None, 113, 114]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 20)), min_size=1, max_size=300)
)
def test_no_translated_offset_is_behind_the_next_record(steps: list[tuple[int, int, int]]) -> None:
    """Whatever gaps there are on either side: a group reads its next record, or one before it."""
    known = OffsetMap()
    places: dict[int, int] = {}
    upstream = downstream = 0
    for gap_there, gap_here, count in steps:
        upstream += gap_there
        downstream += gap_here
        known.copied(T0, upstream, downstream, count)
        places |= {upstream + at: downstream + at for at in range(count)}
        upstream += count
        downstream += count
    for position in range(upstream + 3):
        translated = known.translate(T0, position)
        following = [here for there, here in places.items() if there >= position]
        if translated is not None:
            assert translated <= min(following, default=downstream)
    assert len(known._runs[T0]) <= RUNS_MAX
    assert known.translate(T0, upstream) == downstream


@pytest.mark.parametrize(
    ("before", "upstream", "downstream", "due"),
    [
        (None, 1, 1, True),
        ((5, 5), 6, 5, False),
        ((5, 5), 6, 6, True),
        ((5, 5), 4, 4, True),
        ((5, 5), 5, 5, False),
    ],
)
def test_checkpoints_are_due(before, upstream, downstream, due) -> None:
    assert checkpoint_due(before, upstream, downstream) is due


@pytest.mark.parametrize(
    ("asked", "live", "factor"),
    [(None, 1, 1), (None, 2, 2), (None, 5, 3), (None, 0, 1), (2, 1, 2), (5, 9, 5)],
)
def test_internal_topics_have_the_replicas_that_their_cluster_has_room_for(asked, live, factor) -> None:
    assert internal_factor(asked, live) == factor


def rule(name, operation=Operation.READ, permission=Permission.ALLOW, **others) -> Acl:
    kind = others.get("kind", ResourceType.TOPIC)
    pattern = others.get("pattern", PatternType.LITERAL)
    return Acl(kind, name, pattern, "User:a", "*", operation, permission)


def test_rules_of_copies() -> None:
    selection = Selection(re.compile("t.*"), naming=PREFIX, source="a", target="b")
    found = [
        rule("t1"),
        rule("t1", Operation.WRITE),
        rule("t1", Operation.WRITE, Permission.DENY),
        rule("t2", Operation.ALL),
        rule("t2"),  # the same at the target
        rule("t", pattern=PatternType.PREFIXED),
        rule("other"),
        rule("t1", kind=ResourceType.GROUP),
    ]
    assert mirrored_acls(selection, found) == [
        rule("a.t1"),
        rule("a.t1", Operation.WRITE, Permission.DENY),
        rule("a.t2"),
        rule("a.t", pattern=PatternType.PREFIXED),
    ]


def test_quotas_that_differ() -> None:
    source = [
        ({"user": "a", "client-id": None}, {"producer_byte_rate": 1.0, "request_percentage": 5.0}),
        ({"user": "b"}, {"consumer_byte_rate": 2.0}),
    ]
    target = [
        ({"client-id": None, "user": "a"}, {"producer_byte_rate": 1.0, "consumer_byte_rate": 9.0}),
        ({"user": "b"}, {"consumer_byte_rate": 2.0}),
        ({"ip": "::1"}, {"connection_creation_rate": 3.0}),
    ]
    assert missing_quotas(source, target) == [({"user": "a", "client-id": None}, {"request_percentage": 5.0})]


def test_a_throttle_spreads_bytes() -> None:
    throttle = Throttle(100.0, 5.0)
    assert [throttle.delay_s(50, now) for now in (5.0, 5.0, 5.25)] == [0.0, 0.5, 0.75]
    assert throttle.delay_s(1, 60.0) == 0.0  # unused quota is not saved up
    assert throttle.delay_s(1, 60.0) == pytest.approx(0.01)
    assert Throttle(None, 0.0).delay_s(1 << 40, 0.0) == 0.0
