"""The contents of the web pages, computed from a cluster's answers."""

from collections.abc import Iterable

import pytest

from ottla.client.admin import (
    Broker,
    ClusterDescription,
    ConfigSource,
    ConfigSynonym,
    ConfigValue,
    FoundOffset,
    LogDirectory,
    PartitionDescription,
    ReplicaOnDisk,
    TopicDescription,
)
from ottla.web.forms import Form, FormError
from ottla.web.models.disks import disk_rows
from ottla.web.models.happenings import happenings
from ottla.web.models.messages import (
    BACK,
    FORWARD,
    Browse,
    Filter,
    Message,
    message_of,
    parse_filter,
    parse_places,
    places_text,
)
from ottla.web.models.overview import Overview, overview
from ottla.web.models.series import Counter, Series, sparkline
from ottla.web.models.settings import setting_rows
from ottla.web.models.topics import partition_rows, topic_rows
from ottla.web.models.values import FULL_MAX, member, show
from ottla.web.paging import page_of
from wire.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicPartition, WallMs


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def partition(number: int, leader: int, replicas: Iterable[int], isr: Iterable[int]) -> PartitionDescription:
    return PartitionDescription(number, BrokerId(leader), LeaderEpoch(0), ids(*replicas), ids(*isr), ())


def cluster(*live: int, controller: int = 0) -> ClusterDescription:
    brokers = {BrokerId(each): Broker(BrokerId(each), "h", 9000 + each, None) for each in live}
    return ClusterDescription("c", BrokerId(controller), brokers)


def seen(live: Iterable[int], *partitions: PartitionDescription, controller: int = 0) -> Overview:
    topic = TopicDescription("t", NO_TOPIC_ID, False, partitions)
    return overview(cluster(*live, controller=controller), [topic], WallMs(1000))


class TestOverview:
    def test_counts_what_is_not_well(self) -> None:
        found = seen(
            (0, 1),
            partition(0, 0, (0, 1), (0, 1)),
            partition(1, 0, (1, 0), (0,)),
            partition(2, -1, (1,), ()),
        )
        assert (found.partition_count, found.under_replicated, found.offline, found.not_preferred) == (
            3,
            2,
            1,
            1,
        )
        assert found.health == "offline"

    def test_a_broker_that_is_gone_is_listed_while_it_has_replicas(self) -> None:
        found = seen((0,), partition(0, 0, (0, 1), (0,)))
        assert [(each.broker_id, each.is_alive, each.out_of_sync) for each in found.brokers] == [
            (0, True, 0),
            (1, False, 1),
        ]
        assert found.health == "behind"

    def test_a_cluster_without_controller_is_not_well(self) -> None:
        assert seen((0,), partition(0, 0, (0,), (0,)), controller=-1).health == "offline"


class TestHappenings:
    def test_a_broker_that_dies(self) -> None:
        before = seen((0, 1), partition(0, 1, (1, 0), (1, 0)), partition(1, 1, (1,), (1,)), controller=1)
        after = seen((0,), partition(0, 0, (1, 0), (0,)), partition(1, -1, (1,), (1,)), controller=0)
        assert [(each.tone, each.text) for each in happenings(before, after)] == [
            ("bad", "Broker 1 has left the cluster."),
            ("plain", "Broker 0 is the controller now."),
            ("bad", "1 partition of broker 1 has no leader."),
            ("plain", "Broker 0 leads 1 partition of broker 1."),
            ("bad", "Broker 1 is out of the ISR of 1 partition."),
        ]

    def test_a_broker_that_comes_back(self) -> None:
        before = seen((0,), partition(0, 0, (1, 0), (0,)))
        after = seen((0, 1), partition(0, 0, (1, 0), (0, 1)))
        assert [each.text for each in happenings(before, after)] == [
            "Broker 1 has joined the cluster.",
            "Broker 1 is back in the ISR of 1 partition.",
        ]

    def test_nothing_is_said_of_what_stays(self) -> None:
        assert happenings(seen((0,)), seen((0,))) == []


class TestTopicRows:
    def test_search_size_and_order(self) -> None:
        topics = [
            TopicDescription("b", NO_TOPIC_ID, False, (partition(0, 0, (0,), (0,)),)),
            TopicDescription("a", NO_TOPIC_ID, False, (partition(0, 0, (0, 1), (0,)),)),
            TopicDescription("__x", NO_TOPIC_ID, True, (partition(0, 0, (0,), (0,)),)),
        ]
        found = overview(cluster(0), topics, WallMs(0))
        sizes = {TopicPartition("b", 0): {BrokerId(0): 7, BrokerId(1): 9}}

        def names(**options: object) -> list[str]:
            wanted: dict[str, object] = {"search": "", "with_internal": False, "only": "", "sort": "name"}
            rows = topic_rows(found.summaries, {}, sizes, **(wanted | options))  # type: ignore[arg-type]
            return [row.summary.name for row in rows]

        assert names() == ["a", "b"]
        assert names(with_internal=True, search="X") == ["__x"]
        assert names(only="behind") == ["a"]
        assert names(sort="size") == ["b", "a"]
        rows = topic_rows(found.summaries, {}, sizes, search="b", with_internal=False, only="", sort="name")
        assert rows[0].size == 9

    def test_a_partition_says_why_its_offsets_are_not_known(self) -> None:
        from ottla.client.errors import ClientError

        at = TopicPartition("t", 0)
        ends = {at: FoundOffset(Offset(5), WallMs(-1), LeaderEpoch(0))}
        (row,) = partition_rows("t", [partition(0, 0, (0,), (0,))], {at: ClientError("away")}, ends, {})
        assert (row.start, row.end, row.records, row.problem) == (None, 5, None, "away")


class TestValues:
    @pytest.mark.parametrize(
        ("data", "kind", "short"),
        [
            (None, "null", "null"),
            (b"", "empty", "empty"),
            (b'{"a": [1]}', "json", '{"a": [1]}'),
            (b"17", "text", "17"),
            (b"two\nlines", "text", "two lines"),
            (b"\xff\x00", "hex", "ff 00"),
            (b"\x07bell", "hex", "07 62 65 6c 6c"),
            (b'{"broken', "text", '{"broken'),
        ],
    )
    def test_bytes_are_shown_as_what_they_are(self, data: bytes | None, kind: str, short: str) -> None:
        shown = show(data)
        assert (shown.kind, shown.short, shown.problem) == (kind, short, None)

    def test_what_cannot_be_shown_as_wanted_says_so(self) -> None:
        assert show(b"x", "json").problem == "not JSON"
        assert show(b"\xff", "text").problem == "not text in UTF-8"
        assert "no schema registry" in (show(b"x", "avro").problem or "")

    def test_avro(self) -> None:
        assert show(b"\0\0\0\0\x01x", "auto", lambda data: {"id": data[4]}).full == '{\n  "id": 1\n}'

        def refuse(data: bytes) -> object:
            raise ValueError("the registry has no schema 1")

        assert show(b"\0\0\0\0\x01x", "avro", refuse).problem == "not Avro: the registry has no schema 1"

    def test_much_is_cut(self) -> None:
        shown = show(b"x" * (FULL_MAX + 1))
        assert len(shown.full) == FULL_MAX
        assert shown.is_cut
        assert len(show(b"\xff" * FULL_MAX).full) < 2 * FULL_MAX

    def test_deep_json_is_text(self) -> None:
        assert show(b"[" * 100_000).kind == "text"

    def test_member(self) -> None:
        assert member({"a": [{"b": 1}]}, "a.0.b") == 1
        with pytest.raises(KeyError):
            member({"a": 1}, "a.b")


def record(at: int, offset: int, timestamp: int, value: bytes = b"v") -> Message:
    return message_of(at, offset, timestamp, b"k", value, [("h", b"header")], "auto", None)


class Log:
    """Partitions of offsets with timestamps, read by ranges as the page does."""

    def __init__(self, partitions: dict[int, dict[int, int]]) -> None:
        self.partitions = partitions

    def fill(self, browse: Browse) -> list[tuple[int, int]]:
        while ranges := browse.ranges():
            browse.take(
                ranges,
                [
                    record(number, offset, timestamp, b'{"n": %d}' % offset)
                    for number, (start, stop) in ranges.items()
                    for offset, timestamp in sorted(self.partitions[number].items())
                    if start <= offset < stop
                ],
            )
        return [(each.partition, each.offset) for each in browse.shown]


class TestBrowse:
    def test_going_back_merges_partitions_by_time(self) -> None:
        log = Log({0: {0: 10, 1: 30, 2: 50}, 1: {0: 20, 1: 40}})
        browse = Browse(BACK, {0: 3, 1: 2}, {0: 0, 1: 0}, Filter(), 3)
        assert log.fill(browse) == [(0, 2), (1, 1), (0, 1)]
        assert browse.places == {0: 1, 1: 1}
        assert not browse.is_at_end
        rest = Browse(BACK, browse.places, {0: 0, 1: 0}, Filter(), 3)
        assert log.fill(rest) == [(1, 0), (0, 0)]
        assert rest.is_at_end

    def test_going_forward(self) -> None:
        log = Log({0: {0: 10, 1: 30, 2: 50}, 1: {0: 20, 1: 40}})
        browse = Browse(FORWARD, {0: 0, 1: 0}, {0: 3, 1: 2}, Filter(), 3)
        assert log.fill(browse) == [(0, 0), (1, 0), (0, 1)]
        assert browse.places == {0: 2, 1: 1}

    def test_gaps_of_compaction_leave_nothing_out(self) -> None:
        log = Log({0: {0: 1, 900: 5}, 1: {1: 2, 2: 3, 3: 4}})
        pages, places = [], {0: 1000, 1: 4}
        for _ in range(5):
            browse = Browse(BACK, places, {0: 0, 1: 0}, Filter(), 1)
            pages += log.fill(browse)
            places = browse.places
        assert pages == [(0, 900), (1, 3), (1, 2), (1, 1), (0, 0)]

    def test_a_filter_reads_on_until_enough_fit(self) -> None:
        log = Log({0: {offset: offset for offset in range(3000)}})
        browse = Browse(BACK, {0: 3000}, {0: 0}, Filter(path="n", expected="7"), 5)
        assert log.fill(browse) == [(0, 7)]
        assert browse.scanned == 3000

    def test_times_out_of_order_leave_no_gap_in_a_partition(self) -> None:
        log = Log({0: {0: 99, 1: 1, 2: 2}, 1: {0: 50}})
        browse = Browse(BACK, {0: 3, 1: 1}, {0: 0, 1: 0}, Filter(), 2)
        assert log.fill(browse) == [(1, 0), (0, 2)]
        assert browse.places == {0: 2, 1: 0}

    def test_an_empty_topic(self) -> None:
        browse = Browse(BACK, {0: 0}, {0: 0}, Filter(), 5)
        assert browse.ranges() == {}
        assert browse.is_at_end

    def test_places_in_an_address(self) -> None:
        assert parse_places(places_text({1: 98, 0: 120})) == {0: 120, 1: 98}
        with pytest.raises(ValueError, match="no place"):
            parse_places("7")

    def test_filters(self) -> None:
        message = record(0, 0, 0, b'{"customer": {"id": 17, "vip": true}}')
        assert parse_filter("k", "VIP", "customer.id=17").takes(message)
        assert parse_filter("", "header", "customer.vip=true").takes(message)
        assert not parse_filter("other", "", "").takes(message)
        assert not parse_filter("", "", "customer.name=x").takes(message)
        with pytest.raises(ValueError, match="path=value"):
            parse_filter("", "", "customer")


class TestSeries:
    def test_rates(self) -> None:
        counter = Counter()
        assert counter.observe(0.0, 100) is None
        assert counter.observe(2.0, 150) == 25.0
        assert counter.observe(3.0, 10) is None  # made again
        assert counter.observe(4.0, 20) == 10.0

    def test_only_so_many_points_are_kept(self) -> None:
        series = Series(2)
        for at in range(3):
            series.add(at, at)
        series.add(2, 9)
        assert list(series.points) == [(1, 1), (2, 9)]

    def test_sparkline(self) -> None:
        assert sparkline([5]) == ""
        assert sparkline([0, 10], 10, 12) == "0.0,11.0 10.0,1.0"


def test_settings_that_were_changed_stand_first_and_secrets_are_not_shown() -> None:
    default = ConfigSynonym("retention.ms", "7", ConfigSource.DEFAULT_CONFIG)
    rows = setting_rows(
        [
            ConfigValue("a", "1", ConfigSource.DEFAULT_CONFIG, False, False),
            ConfigValue("password", "s3cret", ConfigSource.STATIC_BROKER_CONFIG, True, False),
            ConfigValue("retention.ms", "9", ConfigSource.DYNAMIC_TOPIC_CONFIG, False, False, (default,)),
        ]
    )
    assert [(row.name, row.value, row.is_own, row.is_changed) for row in rows] == [
        ("retention.ms", "9", True, True),
        ("password", None, False, True),
        ("a", "1", False, False),
    ]
    assert rows[0].fallback == "7"


def test_disks() -> None:
    replicas = (ReplicaOnDisk("t", 0, 10, 3, False), ReplicaOnDisk("t", 1, 30, 0, False))
    known, unknown = disk_rows(
        [LogDirectory("/a", None, 100, 4, replicas), LogDirectory("/b", "gone", -1, -1, ())]
    )
    assert (known.held, known.used, known.behind, known.tone) == (40, 0.96, 1, "bad")
    assert known.largest[0].partition == 1
    assert (unknown.used, unknown.tone) == (None, "bad")


def test_pages_of_a_list() -> None:
    rows = list(range(120))
    page = page_of(rows, "3")
    assert (page.number, page.pages, page.first, page.last) == (3, 3, 101, 120)
    assert page_of(rows, "99").number == 3
    assert page_of(rows, "-1").number == 1
    assert page_of([], "").first == 0


def test_forms_say_what_is_wrong() -> None:
    form = Form([("n", " 1_000 "), ("bad", "x"), ("low", "-1")])
    assert form.number("n", "The count") == 1000
    for name, text in (("bad", "not a whole number"), ("low", "at least 0"), ("missing", "is needed")):
        with pytest.raises(FormError, match=text):
            form.number(name, "The count")
