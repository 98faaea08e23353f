"""What a client may do with topics and groups that it names, as far as the brokers tell: access rules, mostly."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from ottla.commands.diagnosis.findings import Diagnosis
from wire.errors import Error
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from wire.schema import Request

Ask = Callable[[Request], Awaitable[Any]]
_OPERATIONS: Final = {3: "read", 4: "write"}
"""Bits of the authorized operations of a topic."""
_NOT_TOLD: Final = -(1 << 31)
_GROUP: Final = 0


async def look_at_topics(diagnosis: Diagnosis, ask: Ask, topics: Sequence[str]) -> None:
    """Note which of some topics the client may read and write."""
    if not topics:
        return
    answer = await ask(
        MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
    )
    for topic in answer.topics:
        subject = f"topic {topic.name}"
        match topic.error_code:
            case Error.NONE:
                _look_at_operations(diagnosis, subject, topic.name, topic.topic_authorized_operations)
            case Error.TOPIC_AUTHORIZATION_FAILED:
                text = "no access rule lets this user see it, or one denies it"
                diagnosis.wrong(subject, text, _rule_advice(f"--producer --topic {topic.name}"))
            case Error.UNKNOWN_TOPIC_OR_PARTITION:
                diagnosis.wrong(subject, "does not exist", f"ottla topics --create --topic {topic.name}")
            case code:
                error = Error.from_code(code)
                diagnosis.wrong(
                    subject, f"{error.text} ({error.name})", "try again, or see the brokers' logs"
                )


def _look_at_operations(diagnosis: Diagnosis, subject: str, name: str, operations: int) -> None:
    if operations == _NOT_TOLD:
        diagnosis.well(subject, "visible")
        return
    allowed = [what for bit, what in _OPERATIONS.items() if operations >> bit & 1]
    if allowed:
        diagnosis.well(subject, f"this user may {' and '.join(allowed)}")
    else:
        text = "this user may see it, but no access rule lets it read or write"
        diagnosis.wrong(subject, text, _rule_advice(f"--producer --topic {name}"))


async def look_at_groups(diagnosis: Diagnosis, ask: Ask, groups: Sequence[str]) -> None:
    """Note which of some groups the client may see."""
    for name in groups:
        answer = await ask(FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[name]))
        if any(each.error_code == Error.GROUP_AUTHORIZATION_FAILED for each in answer.coordinators):
            text = "no access rule lets this user see it, or one denies it"
            diagnosis.wrong(f"group {name}", text, _rule_advice(f"--consumer --topic TOPIC --group {name}"))
        else:
            diagnosis.well(f"group {name}", "visible")


def _rule_advice(what: str) -> str:
    return f"as an administrator: ottla acls --add --allow-principal User:NAME {what}"
