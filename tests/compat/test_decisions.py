"""Our decisions and measurements equal those of Apache Kafka's classes: access rules, rates and token buckets."""

import random
from collections.abc import Iterator, Sequence

import pytest

from cluster.security.acl import (
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    pascal,
)
from cluster.security.authorizer import Authorizer
from cluster.security.quotas.meters import RateMeter, TokenBucket
from tests.compat.java_program import JavaProgram

RULE_SETS = 5_000
SEQUENCES = 5_000
RECORDS = 12
QUESTIONS = 12
NAMES = ("a", "ab", "abc", "b", "*", "*x", "a*")
ASKED = (*NAMES, "abcd", "c", "")
"""The empty name asks whether any resource is allowed."""
PRINCIPALS = ("User:alice", "User:bob", "User:Alice", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1", "::1")
ADDRESSES = ("10.0.0.1", "10.0.0.2", "::1")
TYPES = (ResourceType.TOPIC, ResourceType.GROUP)
Rule = tuple[ResourcePattern, AclRule]
Question = tuple[str, str, Operation, ResourceType, str]


@pytest.fixture(scope="module")
def kafka(kafka_java: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProgram]:
    program = JavaProgram(kafka_java, "Decisions.java", log=tmp_path_factory.mktemp("kafka") / "log")
    yield program
    program.close()


def answered(kafka: JavaProgram, lines: Sequence[str]) -> Iterator[str]:
    """Send lines in parts that fit into the pipes, and yield the answers."""
    for begin in range(0, len(lines), 20):
        part = lines[begin : begin + 20]
        answers = kafka.answers(*part)
        for _ in part:
            yield next(answers).rstrip("\n")


def random_rules(chance: random.Random) -> list[Rule]:
    return [
        (
            ResourcePattern(
                chance.choice(TYPES),
                chance.choice(NAMES),
                chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            ),
            AclRule(
                chance.choice(PRINCIPALS),
                chance.choice(HOSTS),
                chance.choice(list(Operation)),
                chance.choice(list(Permission)),
            ),
        )
        for _ in range(chance.randrange(9))
    ]


def random_questions(chance: random.Random) -> list[Question]:
    operations = [each for each in Operation if each is not Operation.ALL]
    return [
        (
            chance.choice(PRINCIPALS[:3]),
            chance.choice(ADDRESSES),
            chance.choice(operations),
            chance.choice(TYPES),
            chance.choice(ASKED),
        )
        for _ in range(QUESTIONS)
    ]


def line_of(is_open: bool, rules: Sequence[Rule], questions: Sequence[Question]) -> str:
    given = "|".join(
        ",".join(
            (
                pascal(pattern.resource_type),
                pattern.name,
                pattern.pattern_type.name,
                *(rule.principal, rule.host, rule.operation.name, rule.permission.name),
            )
        )
        for pattern, rule in rules
    )
    asked = "|".join(
        f"{principal},{address},{operation.name},{pascal(kind)},{name}"
        for principal, address, operation, kind, name in questions
    )
    return f"rules\t{str(is_open).lower()}\t{given}\t{asked}"


def ours(is_open: bool, rules: Sequence[Rule], questions: Sequence[Question]) -> str:
    authorizer = Authorizer(allow_without_rules=is_open)
    by_pattern: dict[ResourcePattern, set[AclRule]] = {}
    for pattern, rule in rules:
        by_pattern.setdefault(pattern, set()).add(rule)
    authorizer.table.replace_all((pattern, frozenset(its)) for pattern, its in by_pattern.items())
    verdicts = ""
    for principal, address, operation, kind, name in questions:
        subject = authorizer.subject(principal, address)
        may = subject.may(operation, kind, name) if name else subject.may_somewhere(operation, kind)
        verdicts += "1" if may else "0"
    return verdicts


def test_rules(kafka: JavaProgram) -> None:
    chance = random.Random(37)
    cases = [
        (chance.random() < 0.3, random_rules(chance), random_questions(chance)) for _ in range(RULE_SETS)
    ]
    verdicts = list(answered(kafka, [line_of(*case) for case in cases]))
    differences = [
        (case, theirs, mine)
        for case, theirs in zip(cases, verdicts, strict=True)
        if (mine := ours(*case)) != theirs
    ]
    assert not differences[:3], len(differences)
    assert 0.1 < sum(each.count("1") for each in verdicts) / (RULE_SETS * QUESTIONS) < 0.9


@pytest.mark.parametrize("kind", ["rate", "bucket"])
def test_meters(kafka: JavaProgram, kind: str) -> None:
    chance = random.Random(56)
    lines, mine = [], []
    for _ in range(SEQUENCES):
        samples, window_ms = chance.choice(((11, 1000), (2, 1000), (11, 500), (3, 7000)))
        quota = chance.choice((1.0, 2.5, 1000.0, 1_048_576.0))
        now_ms, records = 1_700_000_000_000, []
        meter = RateMeter(samples, window_ms)
        bucket = TokenBucket(samples, window_ms)
        throttles = []
        for _ in range(RECORDS):
            now_ms += int(chance.expovariate(1 / chance.choice((1, 100, 1500, 20_000))))
            value = round(chance.expovariate(1 / (quota * chance.choice((0.1, 3, 30)))), 3)
            records.append(f"{now_ms}:{value}")
            if kind == "rate":
                meter.record(value, now_ms)
                throttles.append(meter.excess_ms(quota, now_ms))
            else:
                bucket.take(value, quota, now_ms)
                throttles.append(bucket.overdrawn_ms(quota, now_ms))
        lines.append(f"{kind}\t{samples}\t{window_ms}\t{quota}\t{'|'.join(records)}")
        mine.append(" ".join(map(str, throttles)))
    theirs = list(answered(kafka, lines))
    differences = [each for each in zip(lines, theirs, mine, strict=True) if each[1] != each[2]]
    assert not differences[:3], len(differences)
    assert sum(any(value != "0" for value in each.split()) for each in theirs) > SEQUENCES / 10
