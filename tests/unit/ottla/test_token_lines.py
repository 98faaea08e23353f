"""What kafka-delegation-tokens prints, as its 3.9 does; the other tools are compared in tests/compat."""

import re

from ottla.client.admin.tokens import TokenDescription
from ottla.commands.kafka_lines.tokens import created_lines, described_lines, ended_lines

TOKEN = TokenDescription(
    token_id="tQZ5",
    hmac=b"secret",
    owner="User:ann",
    requester="User:ann",
    renewers=("User:ben", "User:cem"),
    issued_ms=1_000_000_000_000,
    expires_ms=1_000_086_400_000,
    max_ms=1_000_604_800_000,
)


def test_a_token_that_was_made() -> None:
    calling, created, blank, head, blank_too, row = created_lines(TOKEN, ["User:ben", "User:cem"], -1)
    assert calling == (
        "Calling create token operation with renewers :[User:ben, User:cem] , max-life-time-period :-1"
    )
    assert created == "Created delegation token with tokenId : tQZ5"
    assert blank == blank_too == ""
    assert head.split() == [
        *("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
    ]
    assert row.startswith(
        f"{'tQZ5':<15} {'c2VjcmV0':<30} {'User:ann':<15} {'User:ann':<15} [User:ben, User:cem]"
    )
    assert re.findall(r"2001-09-\d\dT\d\d:\d\d", row)


def test_tokens_of_owners_and_of_oneself() -> None:
    mine = list(described_lines([TOKEN], []))
    assert mine[:2] == ["Calling describe token operation for current user.", "Total number of tokens : 1"]
    others = next(described_lines([], ["User:ann", "User:ben"]))
    assert others == "Calling describe token operation for owners: [User:ann, User:ben]"


def test_ends_that_were_moved() -> None:
    calling, done = ended_lines("expire", "c2VjcmV0", -1, TOKEN.expires_ms)
    assert calling == "Calling expire token operation with hmac :c2VjcmV0 , expire-time-period :-1"
    assert re.fullmatch(r"Completed expire operation\. New expiry date : 2001-09-\d\dT\d\d:\d\d", done)
