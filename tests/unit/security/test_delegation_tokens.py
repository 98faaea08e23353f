"""Delegation tokens: lifetimes, who is allowed to change them, and their znodes."""

import base64
import hashlib
import hmac

import pytest

from cluster.security.delegation_tokens import DelegationTokens, TokenSettings
from cluster.security.principal import KafkaPrincipal
from cluster.security.token_logins import TokenLogins
from cluster.zookeeper.json_data import MalformedZnodeError
from cluster.zookeeper.token_znodes import StoredToken, TokenZnode
from security.scram import ScramMechanism, make_credential
from wire.errors import ApiError, Error

DAY = 24 * 3600 * 1000
ALICE, BOB, CAROL, TOOL = (KafkaPrincipal("User", name) for name in ("alice", "bob", "carol", "tool"))
NOW = 1_700_000_000_000


@pytest.fixture
def tokens():
    return DelegationTokens(TokenSettings("secret", 7 * DAY, DAY, 3_600_000))


def kept(tokens, lifetime=-1):
    token = tokens.new(ALICE, TOOL, (BOB,), lifetime, NOW, bytes(range(16)))
    tokens.keep(token)
    return token


def failure(call):
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value.error


def test_a_token_is_its_id_and_the_hmac_of_it(tokens):
    token = kept(tokens)
    assert token.token_id == "AAECAwQFBgcICQoLDA0ODw"
    expected = hmac.new(b"secret", token.token_id.encode(), hashlib.sha512).digest()
    assert token.hmac == expected
    assert token.password == base64.b64encode(expected).decode()
    assert "hmac" not in repr(token)
    assert "secret" not in repr(tokens.settings)


@pytest.mark.parametrize(
    ("asked", "max_ms", "expires_ms"),
    [
        (-1, 7 * DAY, DAY),
        (0, 7 * DAY, DAY),
        (1000, 1000, 1000),
        (2**63 - 1, 7 * DAY, DAY),
        (-(2**63), 7 * DAY, DAY),
    ],
)
def test_lifetimes(tokens, asked, max_ms, expires_ms):
    token = kept(tokens, asked)
    assert (token.max_ms - NOW, token.expires_ms - NOW) == (max_ms, expires_ms)


def test_renewing_ends_with_the_longest_life(tokens):
    token = kept(tokens)
    later = NOW + DAY // 2
    assert tokens.renewed(token.hmac, ALICE, -1, later).expires_ms == later + DAY
    assert tokens.renewed(token.hmac, BOB, 2**63 - 1, later).expires_ms == token.max_ms
    assert tokens.renewed(token.hmac, BOB, 0, later).expires_ms == later


@pytest.mark.parametrize("kind", ["renewed", "expired"])
def test_who_may_change_a_token(tokens, kind):
    token, change = kept(tokens), getattr(tokens, kind)
    over = token.expires_ms + 1
    mismatch = Error.DELEGATION_TOKEN_OWNER_MISMATCH
    assert failure(lambda: change(token.hmac, CAROL, 1, NOW)) is mismatch
    assert failure(lambda: change(token.hmac, TOOL, 1, NOW)) is mismatch, "the requester is no renewer"
    assert failure(lambda: change(b"", ALICE, 1, NOW)) is Error.DELEGATION_TOKEN_NOT_FOUND
    assert failure(lambda: change(token.hmac, ALICE, 1, over)) is Error.DELEGATION_TOKEN_EXPIRED
    assert tokens.expired(token.hmac, ALICE, -1, over), "one that is over is removed all the same"
    assert token.concerns(TOOL)
    assert not token.concerns(CAROL)


def test_only_users_renew():
    tokens = DelegationTokens(TokenSettings("s", DAY, DAY, 1))
    group = KafkaPrincipal("Group", "g")
    assert (
        failure(lambda: tokens.new(ALICE, ALICE, (group,), 1, NOW, bytes(16))) is Error.INVALID_PRINCIPAL_TYPE
    )


def test_without_a_secret_there_are_no_tokens():
    tokens = DelegationTokens(None)
    disabled = Error.DELEGATION_TOKEN_AUTH_DISABLED
    assert failure(lambda: tokens.new(ALICE, ALICE, (), 1, NOW, bytes(16))) is disabled
    assert failure(lambda: tokens.renewed(b"", ALICE, 1, NOW)) is disabled


def test_expired_tokens_stay_until_they_are_swept(tokens):
    token = kept(tokens)
    assert tokens.over(token.expires_ms) == []
    assert tokens.over(token.expires_ms + 1) == [token]
    assert tokens.find(token.token_id) == token


STORED = StoredToken("id", KafkaPrincipal("User", "a:b"), TOOL, (BOB,), NOW, NOW + 2, NOW + 1)


def test_the_node_is_kafkas():
    data = TokenZnode.encode(STORED)
    assert data == (
        b'{"version":3,"owner":"User%3Aa%3Ab","tokenRequester":"User%3Atool","renewers":["User%3Abob"],'
        b'"issueTimestamp":1700000000000,"maxTimestamp":1700000000002,"expiryTimestamp":1700000000001,"tokenId":"id"}'
    )
    assert TokenZnode.decode(data) == STORED
    older = data.replace(b'"version":3', b'"version":1').replace(b'"tokenRequester":"User%3Atool",', b"")
    assert TokenZnode.decode(older) == STORED._replace(requester=STORED.owner)


@pytest.mark.parametrize(
    "change", [(b":3", b":4"), (b"User%3Abob", b"bob"), (b"1700000000002", b'"x"'), (b"owner", b"x")]
)
def test_a_node_that_does_not_parse(change):
    with pytest.raises(MalformedZnodeError):
        TokenZnode.decode(TokenZnode.encode(STORED).replace(*change))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_token_is_a_scram_user_with_its_hmac_as_password(tokens, mechanism):
    token = kept(tokens)
    logins = TokenLogins(tokens)
    login = logins.find(mechanism, token.token_id)
    assert (login.owner, login.expires_ms) == (ALICE, token.expires_ms)
    credential = login.credential
    assert credential == make_credential(mechanism, token.password, credential.salt, 4096)
    assert logins.find(mechanism, token.token_id).credential is credential, "it is derived once"
    assert logins.find(mechanism, "another") is None
    tokens.drop(token.token_id)
    assert logins.find(mechanism, token.token_id) is None
