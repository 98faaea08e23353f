"""Changes from the web page: what is confirmed first, what is sent to the cluster, and what is refused."""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.client.admin import (
    CommittedPosition,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    Election,
    FoundOffset,
    GroupDescription,
    LogDirectory,
    NewTopic,
    Reassignment,
    ReplicaOnDisk,
)
from ottla.client.admin.acls import Acl, AclSelection
from ottla.client.errors import ClientError, refusal
from ottla.web.forms import Form, FormError
from ottla.web.models.access import rule_fields, rule_of
from ottla.web.models.checkpoints import find_checkpoints
from ottla.web.models.moves import misled, parse_rate, parse_targets
from ottla.web.models.outgoing import editable, header_lines, outgoing
from ottla.web.models.timeline import moments
from ottla.web.pages.jobs import lag_of
from tests.unit.ottla.web_visitor import FakeAdmin, Visitor, topic, visit
from wire.acl_codes import Operation, PatternType, Permission, ResourceType
from wire.errors import Error
from wire.types import BrokerId, LeaderEpoch, Offset, TopicPartition, WallMs

ORDERS = TopicPartition("orders", 0)


class Changeable(FakeAdmin):
    """A cluster that records the requested changes."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "Empty"
        self.ends = {ORDERS: 100, TopicPartition("orders", 1): 100}
        self.committed = {ORDERS: CommittedPosition(Offset(40))}
        self.ongoing: dict[TopicPartition, Reassignment] = {}

    async def create_topics(self, topics: Sequence[NewTopic], **options: Any) -> Mapping[str, Error]:
        self.calls.append(("create", topics[0]))
        exists = any(each.name == topics[0].name for each in self.topics)
        return {topics[0].name: Error.TOPIC_ALREADY_EXISTS if exists else Error.NONE}

    async def delete_topics(self, names: Sequence[str]) -> None:
        self.calls.append(("delete", list(names)))

    async def create_partitions(self, counts: Mapping[str, int]) -> None:
        self.calls.append(("partitions", dict(counts)))

    async def delete_records(self, before: Mapping[TopicPartition, Offset]) -> Mapping[TopicPartition, Any]:
        self.calls.append(("purge", dict(before)))
        return dict.fromkeys(before, Offset(0))

    async def describe_configs(
        self, resources: Sequence[ConfigResource], **options: Any
    ) -> Mapping[ConfigResource, Sequence[ConfigValue]]:
        return {
            resources[0]: [
                ConfigValue("retention.ms", "7", ConfigSource.DEFAULT_CONFIG, False, False),
                ConfigValue("fixed", "7", ConfigSource.STATIC_BROKER_CONFIG, False, True),
            ]
        }

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        if not validate_only:
            self.calls.append(("configs", dict(changes)))
        elif any(each.value == "nonsense" for ones in changes.values() for each in ones):
            raise refusal(Error.INVALID_CONFIG, "nonsense is no number")

    async def describe_group(self, name: str) -> GroupDescription:
        return GroupDescription(name, self.state, "consumer", "range", BrokerId(0), ())

    async def committed_offsets(self, name: str) -> Mapping[TopicPartition, CommittedPosition]:
        return dict(self.committed)

    async def list_offsets(self, wanted: Mapping[TopicPartition, int], **options: Any) -> Mapping[Any, Any]:
        await trio.lowlevel.checkpoint()
        return {
            at: FoundOffset(Offset(self.ends[at] if when == -1 else 10), WallMs(-1), LeaderEpoch(0))
            for at, when in wanted.items()
        }

    async def commit_offsets(
        self, name: str, offsets: Mapping[TopicPartition, CommittedPosition]
    ) -> Mapping[TopicPartition, Error]:
        self.calls.append(("commit", {at: each.offset for at, each in offsets.items()}))
        return dict.fromkeys(offsets, Error.NONE)

    async def list_reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        return dict(self.ongoing)

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, Any]
    ) -> Mapping[TopicPartition, Any]:
        self.calls.append(("reassign", dict(targets)))
        return dict.fromkeys(targets)

    async def describe_log_dirs(self, broker_id: BrokerId, topics: Any = None) -> list[LogDirectory]:
        return [LogDirectory("/logs", None, -1, -1, (ReplicaOnDisk("orders", 0, 1000, 0, False),))]

    async def elect_leaders(self, kind: Election, partitions: Sequence[TopicPartition]) -> Mapping[Any, Any]:
        self.calls.append(("elect", list(partitions)))
        return dict.fromkeys(partitions)

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        self.calls.append(("allow", list(acls)))

    async def delete_acls(self, selections: Sequence[AclSelection]) -> list[Acl]:
        self.calls.append(("forbid", list(selections)))
        return []


def change(story: Any, admin: Changeable | None = None, **options: Any) -> Changeable:
    """Run a story of a person who has logged in; it gets the visitor and a function that sends forms."""
    admin = admin or Changeable()

    async def run(visitor: Visitor) -> None:
        csrf = await visitor.log_in()

        async def send(path: str, **fields: object) -> Any:
            return await visitor.post(path, {"csrf": csrf, **fields})

        await story(visitor, send)

    visit(run, admin=admin, allow_changes=True, **options)
    return admin


def test_without_the_token_nothing_is_changed() -> None:
    async def story(visitor: Visitor, send: Any) -> None:
        for token in ("", "wrong"):
            answer = await visitor.post("/topics/orders/delete", {"name": "orders", "csrf": token})
            assert answer.status == 403
            assert "out of date" in answer.text

    assert change(story).calls == []


def test_a_page_that_is_read_only_changes_nothing_and_shows_no_forms() -> None:
    admin = Changeable()

    async def story(visitor: Visitor) -> None:
        csrf = await visitor.log_in()
        for path in (
            "/topics/orders/delete", "/topics/orders/purge", "/topics/orders/produce", "/new-topic", "/moves/begin",
            "/moves/elect", "/groups/g/reset", "/access/add", "/access/users", "/topics/orders/settings/retention.ms",
        ):  # fmt: skip
            answer = await visitor.post(path, {"csrf": csrf, "name": "orders"})
            assert answer.status == 403, path
            assert "read-only" in answer.text
        for path in (
            "/topics/orders/change",
            "/topics/orders/produce",
            "/new-topic",
            "/groups/g/reset",
            "/moves",
        ):
            text = (await visitor.get(path)).text.partition("<main")[2]
            assert 'method="post"' not in text.replace('method="post" id="reset"', ""), path
            assert "<button class=" not in text, path

    visit(story, admin=admin, password="correct-horse")
    assert admin.calls == []


class TestTopics:
    def test_create(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            answer = await send("/new-topic", name="new", partitions="3", settings="cleanup.policy=compact\n")
            assert (answer.status, answer.headers["location"]) == (303, "/topics/new")
            assert "Created new." in (await visitor.get("/topics")).text
            assert "already" in (await send("/new-topic", name="orders")).text
            assert "name=value" in (await send("/new-topic", name="x", settings="oops")).text

        calls = change(story).calls
        assert calls[0] == ("create", NewTopic("new", 3, -1, configs={"cleanup.policy": "compact"}))

    def test_deleting_takes_the_name(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            assert (await send("/topics/orders/delete", name="order")).status == 400
            assert (await send("/topics/orders/purge", name="")).status == 400
            assert (await send("/topics/orders/delete", name="orders")).status == 303

        assert change(story).calls == [("delete", ["orders"])]

    def test_purge(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            assert (await send("/topics/orders/purge", name="orders", before="5")).status == 400
            assert (await send("/topics/orders/purge", name="orders", partition="7")).status == 400
            assert (
                await send("/topics/orders/purge", name="orders", partition="1", before="5")
            ).status == 303
            assert (await send("/topics/orders/purge", name="orders")).status == 303

        assert change(story).calls == [
            ("purge", {TopicPartition("orders", 1): 5}),
            ("purge", {ORDERS: -1, TopicPartition("orders", 1): -1}),
        ]

    def test_partitions_only_grow(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            assert (await send("/topics/orders/partitions", count="2")).status == 400
            assert (await send("/topics/orders/partitions", count="5")).status == 303

        assert change(story).calls == [("partitions", {"orders": 5})]


class TestSettings:
    PATH = "/topics/orders/settings/retention.ms"

    def test_the_preview_changes_nothing(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            assert 'value="7"' in (await visitor.get(self.PATH)).text
            answer = await send(self.PATH, value="9")
            assert (answer.status, "Change it" in answer.text) == (200, True)
            assert "nonsense is no number" in (await send(self.PATH, value="nonsense")).text
            assert visitor.admin.calls == []
            assert (await send(self.PATH, value="9", step="apply", before="8")).status == 400
            assert (await send(self.PATH, value="9", step="apply", before="7")).status == 303
            assert (await send("/topics/orders/settings/fixed", value="9")).status == 400

        ((kind, changes),) = change(story).calls
        assert kind == "configs"
        assert list(changes.values()) == [[ConfigChange("retention.ms", ConfigOperation.SET, "9")]]


class TestOffsets:
    PATH = "/groups/g/reset"

    def test_the_present_ones_are_filled_in(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            assert re.search(r'name="to:0:orders"[^>]*value="40"', (await visitor.get(self.PATH)).text)
            earliest = await visitor.get(self.PATH + "?way=to_earliest")
            assert re.search(r'name="to:0:orders"[^>]*value="10"', earliest.text)
            shifted = await visitor.get(self.PATH + "?way=shift_by&value=-999")
            assert re.search(r'name="to:0:orders"[^>]*value="10"', shifted.text)
            assert "10 is taken" in shifted.text
            assert (await visitor.get(self.PATH + "?way=to_datetime&value=soon")).status == 400

        assert change(story).calls == []

    def test_preview_and_apply(self) -> None:
        fields = {"to:0:orders": "20", "before:0:orders": "40"}

        async def story(visitor: Visitor, send: Any) -> None:
            answer = await send(self.PATH, **fields)
            assert "What would change" in answer.text
            assert "-20" in answer.text
            assert visitor.admin.calls == []
            assert (await send(self.PATH, step="apply", **fields)).status == 303

        assert change(story).calls == [("commit", {ORDERS: 20})]

    def test_what_is_refused(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            for value, before in (("101", "40"), ("9", "40"), ("20", "39"), ("x", "40")):
                answer = await send(
                    self.PATH, **{"to:0:orders": value, "before:0:orders": before, "step": "apply"}
                )
                assert answer.status == 400
            same = await send(self.PATH, **{"to:0:orders": "40", "before:0:orders": "40"})
            assert same.status == 303

        assert change(story).calls == []

    def test_members_are_named_as_the_obstacle(self) -> None:
        admin = Changeable()
        admin.state = "Stable"

        async def story(visitor: Visitor, send: Any) -> None:
            answer = await send(self.PATH, **{"to:0:orders": "20", "before:0:orders": "40"})
            assert "it has members" in answer.text
            assert "disabled" in answer.text

        assert change(story, admin).calls == []


class TestMoves:
    PLAN = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 0]}]}'

    def test_plan_and_begin(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            answer = await send("/moves/plan", way="json", json=self.PLAN)
            assert "order only" in answer.text
            assert visitor.admin.calls == []
            found = re.search(r'name="targets" value="([^"]*)"', answer.text)
            assert found
            begun = await send("/moves/begin", targets=unescape(found[1]), rate="50")
            assert begun.status == 303

        assert change(story).calls == [("reassign", {ORDERS: (BrokerId(1), BrokerId(0))})]

    def test_what_is_refused(self) -> None:
        for text in ("", "[]", '{"partitions": []}', '{"partitions": [{"topic": "a"}]}',
                     '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}'):  # fmt: skip
            with pytest.raises(FormError):
                parse_targets(text)
        assert parse_rate("0") == -1
        assert parse_rate("2.5") == 2_500_000
        for text in ("", "fast", "-1", "nan"):
            with pytest.raises(FormError):
                parse_rate(text)

        async def story(visitor: Visitor, send: Any) -> None:
            strange = self.PLAN.replace("[1, 0]", "[1, 7]")
            assert "no broker 7" in (await send("/moves/begin", targets=strange, rate="50")).text

        assert change(story).calls == []

    def test_progress_and_cancelling(self) -> None:
        admin = Changeable()
        admin.ongoing = {ORDERS: Reassignment((BrokerId(0), BrokerId(1)), (BrokerId(1),), (BrokerId(0),))}

        async def story(visitor: Visitor, send: Any) -> None:
            assert "0 of 1 partitions" in (await visitor.get("/moves")).text
            assert (await send("/moves/cancel", at="orders-0")).status == 303
            admin.ongoing = {}
            assert "All 1 move are over" in (await visitor.get("/moves")).text.replace("moves", "move")

        assert change(story, admin).calls == [("reassign", {ORDERS: None})]

    def test_preferred_leaders(self) -> None:
        admin = Changeable()
        both = (BrokerId(1), BrokerId(0))
        (first, second) = topic("orders", 2).partitions
        admin.topics = [
            type(admin.topics[0])(
                "orders",
                admin.topics[0].topic_id,
                False,
                (
                    type(first)(0, BrokerId(0), LeaderEpoch(0), both, both, ()),
                    type(second)(1, BrokerId(0), LeaderEpoch(0), both, (BrokerId(0),), ()),
                ),
            )
        ]
        assert [row.obstacle for row in misled(admin.topics, admin.cluster)] == [
            None,
            "broker 1 is not in sync",
        ]

        async def story(visitor: Visitor, send: Any) -> None:
            assert (await send("/moves/elect")).status == 303

        assert change(story, admin).calls == [("elect", [ORDERS])]


class TestOutgoing:
    @pytest.mark.parametrize(
        "data", [None, b"", b"text", b"two\nlines", b"a\r\nb", b"\xff\0", "grün".encode()]
    )
    def test_what_is_sent_again_is_the_same(self, data: bytes | None) -> None:
        text, encoding = editable(data)
        fields = [("value", text.replace("\n", "\r\n")), ("value_as", encoding), ("headers", "")]
        if data is None:
            fields.append(("value_null", "1"))
        assert outgoing(Form(fields))[1] == data

    def test_headers(self) -> None:
        headers = [("a", b"1"), ("b", b"\xff"), ("c", None), ("d", b"x\ny"), ("e:f", b"=")]
        assert outgoing(Form([("headers", header_lines(headers).replace("\n", "\r\n"))]))[2] == headers

    def test_encodings(self) -> None:
        def value(text: str, encoding: str) -> bytes | None:
            return outgoing(Form([("value", text), ("value_as", encoding)]))[1]

        assert value('{ "a": 1 }', "json") == b'{"a":1}'
        assert value("00 ff", "hex") == b"\0\xff"
        assert value("AP8=", "base64") == b"\0\xff"
        for text, encoding in (("{", "json"), ("0", "hex"), ("?", "base64")):
            with pytest.raises(FormError):
                value(text, encoding)


class TestAccess:
    RULE = Acl(
        ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW
    )

    def test_rules_in_forms(self) -> None:
        assert rule_of(Form(list(rule_fields(self.RULE).items()))) == self.RULE
        for name, text in (
            ("principal", "a"), ("operation", "CLUSTER_ACTION"), ("operation", "DANCE"), ("name", ""), ("type", "X"),
        ):  # fmt: skip
            with pytest.raises(FormError):
                rule_of(Form([*rule_fields(self.RULE).items(), (name, text)]))

    def test_create_and_delete(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            assert (await send("/access/add", **rule_fields(self.RULE))).status == 303
            gone = await send("/access/remove", **rule_fields(self.RULE))
            assert "no such rule any more" in gone.text
            short = await send("/access/users", user="a", password="short", mechanism="SCRAM-SHA-256")
            assert "at least 8" in short.text

        assert change(story).calls == [("allow", [self.RULE]), ("forbid", [AclSelection(*self.RULE)])]


class TestTimeline:
    def test_a_failover_is_one_moment(self) -> None:
        def event(at: int, kind: str, **more: object) -> dict[str, object]:
            return {"at": at, "broker": 0, "n": at, "kind": kind, "topic": "t", "partition": 0, **more}

        found = moments(
            [
                event(1000, "role", role="leader", leader_epoch=0),
                event(9000, "partition", before="online", after="offline"),
                event(9050, "partition", before="offline", after="online", leader=1, leader_epoch=1, isr=[1]),
            ]
        )
        assert [(each.at_ms, each.lasted_ms, each.leaderless) for each in found] == [
            (9000, 50, 1),
            (1000, 0, 0),
        ]
        assert found[0].title == "1 partition gets another leader"
        assert found[0].entries[1].since_first_ms == 50

    def test_without_journals_the_page_says_where_they_are(self) -> None:
        async def story(visitor: Visitor, send: Any) -> None:
            assert "--data DIR" in (await visitor.get("/timeline")).text

        change(story)


class TestJobs:
    def test_checkpoints(self, tmp_path: Path) -> None:
        root = tmp_path / "jobs" / "delays"
        for folder in ("offsets", "commits"):
            (root / folder).mkdir(parents=True)
        (root / "metadata").write_text('{"id": "abc"}')
        for batch in (9, 10):
            (root / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"orders": {{"0": {batch * 10}}}}}')
        (root / "commits" / "9").write_text("v1\n{}")
        (root / "offsets" / ".10.crc").write_text("")
        (found,) = find_checkpoints([tmp_path])
        assert (found.query, found.planned, found.done, found.is_in_batch) == ("abc", 10, 9, True)
        assert found.offsets == {ORDERS: 100}
        assert lag_of(found.offsets, {ORDERS: Offset(130)}) == {"orders": 30}
        assert lag_of(found.offsets, {}) == {"orders": None}

    def test_a_damaged_one_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "offsets").mkdir()
        (tmp_path / "metadata").write_text("{")
        (found,) = find_checkpoints([tmp_path])
        assert "cannot be read" in (found.problem or "")


def test_an_error_of_the_cluster_is_a_sentence_on_the_page() -> None:
    class Refusing(Changeable):
        async def delete_topics(self, names: Sequence[str]) -> None:
            raise ClientError("topic deletion is disabled", error=Error.TOPIC_DELETION_DISABLED)

    async def story(visitor: Visitor, send: Any) -> None:
        answer = await send("/topics/orders/delete", name="orders")
        assert answer.status == 502
        assert "Topic deletion is disabled." in answer.text

    change(story, Refusing())
