"""Decisions by rules: case by case, and against a direct reading of Kafka's definition over random rule sets."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.security.acl import (
    AclFilter,
    AclRule,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    from_pascal,
    java_address,
    pascal,
)
from cluster.security.authorizer import Authorizer

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ALICE = "User:alice"


def rule(operation=Operation.READ, permission=ALLOW, principal=ALICE, host="*"):
    return AclRule(principal, host, operation, permission)


def authorizer(rules, **settings):
    made = Authorizer(**settings)
    made.table.replace_all((pattern, frozenset(its)) for pattern, its in rules.items())
    return made


def may(made, name="app-1", operation=Operation.READ, principal=ALICE, address="10.0.0.1", kind=TOPIC):
    return made.subject(principal, address).may(operation, kind, name)


@pytest.mark.parametrize(
    ("name", "pattern", "allowed"),
    [
        ("app-1", ResourcePattern(TOPIC, "app-", PREFIXED), True),
        ("app", ResourcePattern(TOPIC, "app-", PREFIXED), False),
        ("app-", ResourcePattern(TOPIC, "app-", PREFIXED), True),
        ("app-1", ResourcePattern(TOPIC, "*", LITERAL), True),
        ("app-1", ResourcePattern(TOPIC, "*", PREFIXED), False),
        ("*x", ResourcePattern(TOPIC, "*", PREFIXED), True),
        ("app-1", ResourcePattern(GROUP, "app-1", LITERAL), False),
    ],
)
def test_patterns(name, pattern, allowed):
    assert may(authorizer({pattern: [rule()]}), name) is allowed


@pytest.mark.parametrize(
    "denying",
    [
        (ResourcePattern(TOPIC, "*", LITERAL), rule(permission=DENY)),
        (ResourcePattern(TOPIC, "ap", PREFIXED), rule(permission=DENY)),
        (ResourcePattern(TOPIC, "app-1", LITERAL), rule(permission=DENY, host="10.0.0.1")),
        (ResourcePattern(TOPIC, "app-1", LITERAL), rule(Operation.ALL, DENY, "User:*")),
    ],
)
def test_a_denial_wins_over_every_permission(denying):
    pattern, denial = denying
    rules = {ResourcePattern(TOPIC, "app-1", LITERAL): {rule(Operation.ALL), rule()}}
    assert may(authorizer(rules))
    rules[pattern] = rules.get(pattern, set()) | {denial}
    assert not may(authorizer(rules))
    assert may(authorizer(rules, super_users=[ALICE])), "super users are allowed whatever is denied"


def test_a_denial_implies_nothing_and_a_permission_does():
    rules = {
        ResourcePattern(TOPIC, "app-1", LITERAL): [rule(permission=DENY), rule(Operation.WRITE)],
        ResourcePattern(TOPIC, "b", LITERAL): [rule(Operation.ALTER_CONFIGS)],
    }
    made = authorizer(rules)
    assert may(made, operation=Operation.DESCRIBE)
    assert may(made, "b", Operation.DESCRIBE_CONFIGS)
    assert not may(made, "b", Operation.DESCRIBE)


def test_everything_is_compared_with_its_case():
    made = authorizer({ResourcePattern(TOPIC, "app-1", LITERAL): [rule()]})
    assert not may(made, principal="User:Alice")
    assert not may(made, principal="user:alice")
    assert not may(made, "App-1")


def test_one_rule_for_another_closes_a_resource_that_was_open():
    assert may(authorizer({}, allow_without_rules=True))
    rules = {ResourcePattern(TOPIC, "ap", PREFIXED): [rule(principal="User:bob")]}
    assert not may(authorizer(rules, allow_without_rules=True))
    assert not may(authorizer({}))


@pytest.mark.parametrize(
    ("address", "java"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::12:0a%eth0", "fe80:0:0:0:0:0:12:a%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_hosts_are_addresses_as_java_writes_them(address, java):
    assert java_address(address) == java
    rules = {ResourcePattern(TOPIC, "app-1", LITERAL): [rule(host=java)]}
    assert may(authorizer(rules), address=address)


def test_a_rule_for_a_short_ipv6_address_never_matches():
    assert not may(authorizer({ResourcePattern(TOPIC, "app-1", LITERAL): [rule(host="::1")]}), address="::1")


def test_a_verdict_ends_with_the_rules_that_it_was_made_by():
    pattern = ResourcePattern(TOPIC, "app-1", LITERAL)
    made = authorizer({pattern: [rule()]})
    subject = made.subject(ALICE, "10.0.0.1")
    assert subject.may(Operation.READ, TOPIC, "app-1")
    made.table.set_rules(pattern, ())
    assert not subject.may(Operation.READ, TOPIC, "app-1")
    made.table.set_rules(pattern, {rule()})
    assert subject.may(Operation.READ, TOPIC, "app-1")


def test_ten_thousand_rules_cost_a_look_up():
    rules = {ResourcePattern(TOPIC, f"prefix-{number}-", PREFIXED): [rule()] for number in range(10_000)}
    made = authorizer(rules)
    assert sum(1 for _ in made.table._applying(TOPIC, "prefix-77-x")) == 1
    assert may(made, "prefix-9999-x")


def test_the_audit_log_cannot_be_forged(caplog):
    made = authorizer({})
    with caplog.at_level(logging.INFO, "ottla.audit"):
        made.subject(ALICE, "10.0.0.1").may(
            Operation.WRITE, TOPIC, 'a" result="allowed\nx', api="PRODUCE", count=3
        )
        made.subject(ALICE, "10.0.0.1").may(Operation.WRITE, TOPIC, "b", quiet=True)
    (record,) = caplog.records
    assert record.getMessage() == (
        'principal="User:alice" result=denied operation=Write host="10.0.0.1" '
        'resource="Topic:LITERAL:a\\" result=\\"allowed\\nx" request=PRODUCE count=3'
    )
    with caplog.at_level(logging.DEBUG, "ottla.audit"):
        authorizer({}, super_users=[ALICE]).subject(ALICE, "h").may(Operation.READ, TOPIC, "t")
    assert caplog.records[-1].levelno == logging.DEBUG
    assert "result=allowed" in caplog.records[-1].getMessage()


# The definition, read plainly.

NAMES = ["a", "ab", "abc", "b", "*"]
PRINCIPALS = [ALICE, "User:bob", "User:*"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
rules_of = st.frozensets(
    st.builds(
        AclRule,
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from(Operation),
        st.sampled_from(Permission),
    ),
    min_size=1,
    max_size=3,
)
patterns = st.builds(
    ResourcePattern, st.just(TOPIC), st.sampled_from(NAMES), st.sampled_from([LITERAL, PREFIXED])
)
rule_sets = st.dictionaries(patterns, rules_of, max_size=6)


def speaks_of(each, principal, host):
    return each.principal in (principal, "User:*") and each.host in (host, "*")


def plainly(rules, principal, host, operation, name, open_without_rules):
    applying = [
        each
        for pattern, its in rules.items()
        for each in its
        if (pattern.pattern_type is LITERAL and pattern.name in (name, "*"))
        or (pattern.pattern_type is PREFIXED and name.startswith(pattern.name))
    ]
    if not applying:
        return open_without_rules
    ours = [each for each in applying if speaks_of(each, principal, host)]
    if any(each.permission is DENY and each.operation in (operation, Operation.ALL) for each in ours):
        return False
    allowing = {operation, Operation.ALL}
    if operation is Operation.DESCRIBE:
        allowing |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation is Operation.DESCRIBE_CONFIGS:
        allowing |= {Operation.ALTER_CONFIGS}
    return any(each.permission is ALLOW and each.operation in allowing for each in ours)


@given(
    rule_sets,
    st.sampled_from(PRINCIPALS[:2]),
    st.sampled_from(HOSTS[1:]),
    st.sampled_from([each for each in Operation if each is not Operation.ALL]),
    st.sampled_from(["a", "ab", "abcd", "b", "c", "*x"]),
    st.booleans(),
)
def test_decisions_are_those_of_the_definition(rules, principal, host, operation, name, open_without_rules):
    made = authorizer(rules, allow_without_rules=open_without_rules)
    expected = plainly(rules, principal, host, operation, name, open_without_rules)
    assert may(made, name, operation, principal, host) is expected


@given(rule_sets, st.sampled_from(PRINCIPALS[:2]))
def test_something_is_allowed_somewhere_if_a_name_is(rules, principal):
    """A name that an ALLOW covers and no DENY does is the proof; names longer than any pattern try each prefix."""
    made = authorizer(rules)
    somewhere = made.subject(principal, "10.0.0.1").may_somewhere(Operation.WRITE, TOPIC)
    names = [*NAMES[:4], *(name + suffix for name in NAMES for suffix in ("", "~")), "zz"]
    found = any(
        plainly(rules, principal, "10.0.0.1", Operation.WRITE, name, open_without_rules=False)
        for name in names
    )
    assert somewhere is found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(name="app-1", pattern_type=PatternType.MATCH), {"*", "app-", "app-1", "g"}),
        (AclFilter(name="app-1", pattern_type=PatternType.ANY), {"app-1", "g"}),
        (AclFilter(name="app-1", pattern_type=PREFIXED), {"app-1"}),
        (AclFilter(TOPIC, "app-1", LITERAL), set()),
        (AclFilter(principal="User:*"), {"*"}),
        (AclFilter(GROUP), {"g"}),
        (AclFilter(permission=DENY), {"app-"}),
        (AclFilter(), {"*", "app-", "app-1", "g"}),
    ],
)
def test_filters(wanted, found):
    rules = {
        ResourcePattern(TOPIC, "*", LITERAL): [rule(principal="User:*")],
        ResourcePattern(TOPIC, "app-", PREFIXED): [rule(permission=DENY)],
        ResourcePattern(TOPIC, "app-1", PREFIXED): [rule()],
        ResourcePattern(GROUP, "app-1", LITERAL): [rule()],
    }
    bindings = authorizer(rules).table.find(wanted)
    assert {"g" if each.pattern.resource_type is GROUP else each.pattern.name for each in bindings} == found


def test_names_in_znodes():
    for operation in Operation:
        assert from_pascal(Operation, pascal(operation)) is operation
    assert from_pascal(Operation, "idempotentwrite") is Operation.IDEMPOTENT_WRITE
    assert from_pascal(Operation, "Fly") is None
    assert pascal(ResourceType.TRANSACTIONAL_ID) == "TransactionalId"
