"""The session contract over TLS with a login, on znodes with access control lists; and what is refused."""

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
from click.testing import CliRunner, Result
from kazoo.exceptions import NoAuthError as KazooNoAuthError

from cluster.zookeeper.client import ConnectionLossError, NoAuthError, ZooKeeper
from cluster.zookeeper.guardian import SharedSecrets
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.kazoo_connection import blocking_client
from cluster.zookeeper.session_closer import SessionKey, close_session
from ottla.commands.security.zookeeper_security_migration import command as migration
from security.zookeeper_access import OPEN, ZooKeeperAccess, zookeeper_access
from tests.compat.certificates import PASSWORD, Authority
from tests.contract.conftest import RealZooKeeper, free_port
from tests.contract.test_zookeeper import RealSite
from tests.contract.zookeeper_checks import CHECKS, Check, check_a_write_under_way_has_an_unknown_outcome

LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule"
USER_PASSWORD = 'a "quoted" pass word'


class Secured(NamedTuple):
    """A server with TLS and logins, and a broker's settings for it."""

    server: RealZooKeeper
    hosts: str
    settings: Mapping[str, str]
    authority: Authority

    def access(self, **changes: str | None) -> ZooKeeperAccess:
        changed = {name.replace("_", "."): value for name, value in changes.items()}
        return zookeeper_access((dict(self.settings) | changed).get)


@pytest.fixture(scope="module")
def secured(
    make_real_zookeeper: Callable[..., RealZooKeeper], tmp_path_factory: pytest.TempPathFactory
) -> Secured:
    """A server that demands a client's certificate on its TLS port, and knows the user `kafka`."""
    directory = tmp_path_factory.mktemp("secured-zookeeper")
    authority = Authority(directory)
    port = free_port()
    login = directory / "server.jaas"
    quoted = USER_PASSWORD.replace('"', '\\"')
    login.write_text(f'Server {{\n  {LOGIN} required\n  user_kafka="{quoted}";\n}};\n')
    stores = {
        "ssl.keyStore.location": authority.pkcs12("zookeeper"),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": authority.trust_store("JKS"),
        "ssl.trustStore.password": PASSWORD,
    }
    server = make_real_zookeeper(
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\nssl.enabledProtocols=TLSv1.2,TLSv1.3\n"
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
        + "".join(f"{name}={value}\n" for name, value in stores.items()),
        (f"-Djava.security.auth.login.config={login}",),
    )
    settings = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.protocol": "TLSv1.3",
        "zookeeper.ssl.keystore.location": str(authority.pem("broker")),
        "zookeeper.ssl.truststore.location": str(authority.trust_store("JKS")),
        "zookeeper.ssl.truststore.password": PASSWORD,
        "zookeeper.set.acl": "true",
        "ottla.zookeeper.jaas.config": f'{LOGIN} required username="kafka" password="{quoted}";',
    }
    return Secured(server, f"127.0.0.1:{port}", settings, authority)


def in_session(
    hosts: str, access: ZooKeeperAccess, body: Callable[[KazooZooKeeper], Awaitable[None]], wait_s: float = 18
) -> None:
    async def main() -> None:
        zookeeper = KazooZooKeeper(hosts, 6.0, time.monotonic, access=access, connect_timeout_s=wait_s)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                await nursery.start(zookeeper.run)
                await body(zookeeper)
                nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


async def nothing(_zookeeper: ZooKeeper) -> None:
    return


@pytest.mark.parametrize(
    "check",
    # A write that kazoo's thread has not sent when the server dies is sent later. Over TLS on a busy machine that
    # happens too often, so this check runs only without TLS.
    [each for each in CHECKS if each is not check_a_write_under_way_has_an_unknown_outcome],
    ids=lambda check: check.__name__,
)
def test_the_contract_holds_over_tls_with_a_user(check: Check, secured: Secured) -> None:
    async def main() -> None:
        with trio.fail_after(60):
            await check(RealSite(secured.server, secured.hosts, secured.access()))

    trio.run(main)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_large_answers_and_many_small_ones(protocol: str, secured: Secured) -> None:
    async def body(zookeeper: KazooZooKeeper) -> None:
        data = bytes(range(256)) * 3000
        path = f"/large-{protocol}"
        await zookeeper.create(path, data)
        answers = await zookeeper.get_many([path] * 20 + ["/missing"] * 500)
        assert all(answer is not None and answer[0] == data for answer in answers[:20])
        assert answers[20:] == [None] * 500

    in_session(secured.hosts, secured.access(zookeeper_ssl_protocol=protocol), body)


def test_znodes_are_protected_as_kafka_protects_them(secured: Secured) -> None:
    access = secured.access()

    async def body(zookeeper: KazooZooKeeper) -> None:
        for path in ("/config/users/ann", "/config/topics/t", "/consumers", "/brokers/seqid"):
            await zookeeper.create(path, b"{}", make_parents=True)

    in_session(f"{secured.hosts}/protected", access, body)
    client = blocking_client(secured.server.hosts, 6.0, OPEN)
    client.start()
    try:
        lists = {
            path: sorted(
                (acl.id.scheme, acl.id.id.partition(":")[0], acl.perms) for acl in client.get_acls(path)[0]
            )
            for path in (
                "/protected",
                "/protected/config/topics/t",
                "/protected/brokers",
                "/protected/consumers",
            )
        }
        owners = {("sasl", "kafka", 31), ("x509", lists["/protected"][-1][1], 31)}
        readable = sorted(owners | {("world", "anyone", 1)}, key=lambda each: (each[0] != "sasl", each))
        assert {each[0] for each in lists["/protected"]} == {each[0] for each in readable}
        assert lists["/protected"] == lists["/protected/config/topics/t"] == lists["/protected/brokers"]
        assert lists["/protected/consumers"] == [("world", "anyone", 31)]
        assert client.get("/protected/config/topics/t")[0] == b"{}"
        with pytest.raises(KazooNoAuthError):
            client.get("/protected/config/users/ann")
        with pytest.raises(KazooNoAuthError):
            client.set("/protected/config/topics/t", b"mine")
    finally:
        client.stop()
        client.close()


def test_existing_znodes_are_protected_and_opened_by_the_command(secured: Secured, tmp_path: Path) -> None:
    config = tmp_path / "zookeeper.properties"
    lines = [f"{name}={value}\n" for name, value in secured.settings.items()]
    config.write_text("".join(lines).replace("\\", "\\\\"))
    hosts = f"{secured.hosts}/migrated"

    async def body(zookeeper: KazooZooKeeper) -> None:
        for path in ("/config/users/ann", "/brokers/topics/t", "/consumers/mine", "/strange"):
            await zookeeper.create(path, b"{}", make_parents=True)

    in_session(hosts, replace(secured.access(), protects=False), body)
    anonymous = blocking_client(f"{secured.server.hosts}/migrated", 6.0, OPEN)
    anonymous.start()

    def migrate(acl: str, *more: str) -> Result:
        arguments = [
            "--zookeeper.acl",
            acl,
            "--zookeeper.connect",
            hosts,
            "--zk-tls-config-file",
            str(config),
        ]
        return CliRunner().invoke(migration, [*arguments, *more])

    try:
        done = migrate("secure")
        assert done.output == "7 znodes are protected\n", done.output
        with pytest.raises(KazooNoAuthError):
            anonymous.get("/config/users/ann")
        assert anonymous.get("/brokers/topics/t")[0] == b"{}"
        for path in ("/brokers/topics/t", "/config"):
            with pytest.raises(KazooNoAuthError):
                anonymous.set(path, b"mine")
        anonymous.set("/consumers/mine", b"mine")
        anonymous.set("/strange", b"mine")
        done = migrate("unsecure")
        assert done.output == "7 znodes are open\n", done.output
        anonymous.set("/config/users/ann", b"{}")
        done = migrate("unsecure", "--json")
        assert json.loads(done.stdout) == {"acl": "unsecure", "znodes": 7}
        done = migrate("secure", "--enable.path.check")
        assert done.exit_code == 1
        assert "/cluster, /controller_epoch: not there" in done.output
        anonymous.set("/config/users/ann", b"{}")
    finally:
        anonymous.stop()
        anonymous.close()


def test_a_dead_brokers_session_is_closed_over_tls(secured: Secured) -> None:
    secrets = SharedSecrets()

    async def body(zookeeper: KazooZooKeeper) -> None:
        dead = KazooZooKeeper(secured.hosts, 30.0, time.monotonic, access=secured.access())
        async with trio.open_nursery() as nursery:
            await nursery.start(dead.run)
            await dead.create("/ephemeral", ephemeral=True)
            key = dead.session_key
            # As the guardian gets it: through shared memory.
            shared = secrets.read(secrets.write(key.access))
            key = SessionKey(key.hosts, key.session_id, key.password, key.timeout_s, shared)
            assert await trio.to_thread.run_sync(close_session, key, time.monotonic)
            assert await zookeeper.exists("/ephemeral") is None
            nursery.cancel_scope.cancel()
        plain = replace(key, access=OPEN, timeout_s=0.5)
        assert not await trio.to_thread.run_sync(close_session, plain, time.monotonic)

    in_session(secured.hosts, secured.access(), body)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"zookeeper_ssl_truststore_location": "other"}, "authority is not among the trusted ones"),
        ({"zookeeper_ssl_client_enable": "false", "zookeeper_set_acl": "false"}, "no connection"),
    ],
)
def test_a_server_that_is_not_trusted_is_refused_with_the_reason(
    changes: dict[str, str], reason: str, secured: Secured, tmp_path: Path
) -> None:
    if changes.get("zookeeper_ssl_truststore_location") == "other":
        changes = {"zookeeper_ssl_truststore_location": str(Authority(tmp_path).trust_store("JKS"))}
    with pytest.raises(ConnectionLossError, match=reason):
        in_session(secured.hosts, secured.access(**changes), nothing, wait_s=3)


def test_a_server_of_another_name_is_refused_unless_names_do_not_matter(
    secured: Secured, make_real_zookeeper: Callable[..., RealZooKeeper]
) -> None:
    authority, port = secured.authority, free_port()
    stores = {
        "ssl.keyStore.location": authority.pkcs12("elsewhere", "elsewhere.example"),
        "ssl.keyStore.password": PASSWORD,
        "ssl.trustStore.location": authority.trust_store("JKS"),
        "ssl.trustStore.password": PASSWORD,
    }
    make_real_zookeeper(
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
        f"secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n"
        + "".join(f"{name}={value}\n" for name, value in stores.items())
    )
    hosts = f"127.0.0.1:{port}"
    tls: dict[str, str | None] = {"ottla_zookeeper_jaas_config": None}
    with pytest.raises(ConnectionLossError, match="not made out for this"):
        in_session(hosts, secured.access(**tls), nothing, wait_s=3)
    in_session(
        hosts, secured.access(**tls, zookeeper_ssl_endpoint_identification_algorithm=""), nothing, wait_s=18
    )


def test_a_wrong_password_is_refused(secured: Secured) -> None:
    access = replace(secured.access(), password="wrong")
    with pytest.raises(NoAuthError):
        in_session(secured.hosts, access, nothing)


def test_no_secret_is_shown() -> None:
    access = ZooKeeperAccess({"ssl.keystore.key": "hidden"}, "kafka", "hidden")
    assert "hidden" not in repr(access)
    assert "hidden" not in repr(SessionKey("a:1", 1, b"hidden", 1.0, access))
