import pytest

from cluster.security.principal_mapping import MappingRuleError, NoMappingError, PrincipalMapping

ALICE = "CN=Alice,OU=dev/ops,O=Example"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", ALICE),
        ("DEFAULT", ALICE),
        (r"RULE:^CN=(.*?),.*$/$1/", "Alice"),
        (r"RULE:^CN=(.*?),.*$/$1/L", "alice"),
        (r"RULE:^CN=(.*?),.*$/$1/U", "ALICE"),
        (r"RULE:^CN=(.*?),OU=(.*?),O=.*$/$1@$2/", "Alice@dev/ops"),
        (r"RULE:^CN=(.*?),OU=dev\/ops,.*$/$1/", "Alice"),
        (r"RULE:^CN=(.*?),.*$/$1-$3/", "Alice-$3"),
        (r"RULE:^OU=(.*)$/$1/, RULE:^CN=(\w+).*$/user-$1/L, DEFAULT", "user-alice"),
        (r"RULE:^CN=Bob.*$/bob/,DEFAULT", ALICE),
        (r"RULE:^CN=Alice/found/,DEFAULT", ALICE),  # a rule matches the whole subject or not at all
    ],
)
def test_the_first_rule_that_matches_gives_the_name(rules: str, name: str) -> None:
    assert PrincipalMapping(rules).name_of(ALICE) == name


def test_no_rule_matches() -> None:
    with pytest.raises(NoMappingError):
        PrincipalMapping(r"RULE:^CN=Bob.*$/bob/").name_of(ALICE)


@pytest.mark.parametrize(
    "rules", ["RULE:a", "RULE:a/b", "RULE:(/b/", "default", "RULE:a/b/X", "DEFAULT DEFAULT"]
)
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(MappingRuleError):
        PrincipalMapping(rules)
