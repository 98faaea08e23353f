"""Delegation tokens in ZooKeeper and in the answers of their APIs."""

from dataclasses import dataclass

import pytest
import trio
import trio.testing

from cluster.handlers import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from cluster.network.endpoints import SecurityProtocol
from cluster.security.acl import AclRule, Operation, PatternType, Permission, ResourcePattern, ResourceType
from cluster.security.authorizer import Authorizer
from cluster.security.delegation_tokens import DelegationTokens, TokenSettings
from cluster.security.principal import ANONYMOUS, KafkaPrincipal
from cluster.zookeeper.broker_store import BrokerStore
from cluster.zookeeper.stored_tokens import StoredTokens
from simulation.zookeeper import FakeEnsemble, FakeZooKeeper
from tests.unit.handlers.calls import Broker, Connection, KeptCall
from wire.errors import Error
from wire.messages import create_delegation_token as create
from wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from wire.types import WallMs

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
SASL = SecurityProtocol.SASL_PLAINTEXT
HOUR = 3_600_000


@dataclass(eq=False)
class Asked(Broker):
    tokens: StoredTokens


class Site:
    """Two brokers with one ensemble, the second of which follows."""

    def __init__(self, secret="s"):
        self.ensemble = FakeEnsemble()
        self.settings = TokenSettings(secret, 24 * HOUR, HOUR, HOUR) if secret else None
        self.zk, self.tokens = self.broker()
        _, self.other = self.broker()
        self.now = 1_700_000_000_000
        self.authorizer = Authorizer()

    def broker(self):
        zk = FakeZooKeeper(self.ensemble, 6.0)
        zk.connect()
        return zk, StoredTokens(DelegationTokens(self.settings), zk, lambda: WallMs(0))

    def wall_ms(self):
        return WallMs(self.now)

    def permit(self, principal, operation, resource_type, name):
        pattern = ResourcePattern(resource_type, name, PatternType.LITERAL)
        self.authorizer.table.set_rules(pattern, {AclRule(str(principal), "*", operation, Permission.ALLOW)})

    async def ask(self, handler, request, principal=ALICE, protocol=SASL):
        connection = Connection(principal, security_protocol=protocol)
        broker = Asked(self.tokens, clock=self, authorizer=self.authorizer)
        call = KeptCall(broker, request, 3, connection=connection)
        return await handler.handle(call)

    async def create(self, owner=None, renewers=(), **rest):
        request = create.CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=[create.CreatableRenewers(principal_type="User", principal_name=n) for n in renewers],
            max_lifetime_ms=-1,
        )
        return await self.ask(create_delegation_token, request, **rest)

    async def seen_by(self, principal, owners=None):
        asked = None
        if owners is not None:
            asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=o) for o in owners]
        request = DescribeDelegationTokenRequest(owners=asked)
        answer = await self.ask(describe_delegation_token, request, principal=principal)
        assert answer.error_code == 0
        return [token.token_id for token in answer.tokens]


def in_site(test, **options):
    async def main():
        site = Site(**options)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(site.ensemble.run)
            await BrokerStore(site.zk).create_persistent_paths()
            await site.other.load()
            nursery.start_soon(lambda: site.other.follow(reload=False))
            await test(site)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_token_reaches_the_other_broker_and_goes_from_it():
    @in_site
    async def _(site):
        made = await site.create(renewers=["bob"])
        assert made.error_code == 0
        assert made.expiry_timestamp_ms == site.now + HOUR
        await trio.testing.wait_all_tasks_blocked()
        theirs = site.other.tokens.find(made.token_id)
        assert theirs is not None
        assert (theirs.hmac, theirs.owner, theirs.renewers) == (made.hmac, ALICE, (BOB,))
        node, _ = await site.zk.get(f"/delegation_token/tokens/{made.token_id}")
        assert made.hmac not in node
        site.now += 1000
        renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=2 * HOUR)
        answer = await site.ask(renew_delegation_token, renew, principal=BOB)
        assert answer.expiry_timestamp_ms == site.now + 2 * HOUR
        await trio.testing.wait_all_tasks_blocked()
        assert site.other.tokens.find(made.token_id).expires_ms == answer.expiry_timestamp_ms
        expire = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
        assert (await site.ask(expire_delegation_token, expire)).error_code == 0
        await trio.testing.wait_all_tasks_blocked()
        assert site.other.tokens.find(made.token_id) is None
        assert await site.zk.children("/delegation_token/tokens") == []


def test_the_controller_removes_what_is_over():
    @in_site
    async def _(site):
        made = await site.create()
        await site.tokens.remove_expired(made.expiry_timestamp_ms)
        assert len(site.tokens.tokens) == 1
        await site.tokens.remove_expired(made.expiry_timestamp_ms + 1)
        assert len(site.tokens.tokens) == 0
        await trio.testing.wait_all_tasks_blocked()
        assert site.other.tokens.find(made.token_id) is None


@pytest.mark.parametrize(
    ("principal", "protocol"),
    [
        (ALICE, SecurityProtocol.PLAINTEXT),
        (ANONYMOUS, SecurityProtocol.SSL),
        (KafkaPrincipal("User", "alice", token_authenticated=True), SASL),
    ],
)
def test_who_may_not_ask_at_all(principal, protocol):
    @in_site
    async def _(site):
        refused = Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        answer = await site.create(principal=principal, protocol=protocol)
        assert (answer.error_code, answer.token_id, answer.expiry_timestamp_ms) == (refused, "", -1)
        for handler, request in (
            (renew_delegation_token, RenewDelegationTokenRequest()),
            (expire_delegation_token, ExpireDelegationTokenRequest()),
            (describe_delegation_token, DescribeDelegationTokenRequest(owners=None)),
        ):
            answer = await site.ask(handler, request, principal=principal, protocol=protocol)
            assert answer.error_code == refused


def test_tokens_for_others_need_a_rule():
    @in_site
    async def _(site):
        assert (await site.create("bob")).error_code == Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        site.permit(ALICE, Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
        made = await site.create("bob")
        assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (
            0,
            "bob",
            "alice",
        )


def test_others_tokens_are_not_seen_without_a_rule():
    @in_site
    async def _(site):
        mine = (await site.create()).token_id
        carol = KafkaPrincipal("User", "carol")
        assert await site.seen_by(ALICE) == [mine]
        assert await site.seen_by(ALICE, ["bob"]) == []
        assert await site.seen_by(ALICE, []) == []
        assert await site.seen_by(carol) == []
        site.permit(carol, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, mine)
        assert await site.seen_by(carol) == [mine]
        site.permit(BOB, Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:alice")
        assert await site.seen_by(BOB) == [mine]


def test_without_a_secret_tokens_are_switched_off():
    async def main(site):
        assert (await site.create()).error_code == Error.DELEGATION_TOKEN_AUTH_DISABLED

    in_site(main, secret="")
