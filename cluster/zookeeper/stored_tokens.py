"""Keeps the delegation tokens in line with ZooKeeper, and makes the changes that clients request."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from cluster.security.delegation_tokens import DelegationToken, DelegationTokens
from cluster.zookeeper.change_notifications import ChangeNotifications
from cluster.zookeeper.client import (
    ANY_VERSION,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    ZooKeeper,
)
from cluster.zookeeper.json_data import MalformedZnodeError
from cluster.zookeeper.reader import ZnodeReader
from cluster.zookeeper.token_znodes import StoredToken, TokenChangeZnode, TokenZnode

if TYPE_CHECKING:
    from wire.types import WallMs

logger = logging.getLogger(__name__)


class StoredTokens:
    """Delegation tokens, in memory for logins and in ZooKeeper for every broker.

    Args:
        tokens: The tokens for logins; kept current by `load` and `follow`.
        zookeeper: The session.
        wall_ms: The wall clock, for the age of notifications.
    """

    def __init__(
        self, tokens: DelegationTokens, zookeeper: ZooKeeper, wall_ms: "Callable[[], WallMs]"
    ) -> None:
        self.tokens = tokens
        self._zookeeper = zookeeper
        self._reader = ZnodeReader(zookeeper)
        self._changes = ChangeNotifications(zookeeper, wall_ms, TokenChangeZnode.PARENT)

    async def load(self) -> None:
        """Read every token; `follow` continues from here."""
        await self._changes.mark_read()
        names = await self._reader.read_children(TokenZnode.PARENT)
        nodes = await self._zookeeper.get_many([TokenZnode.path(name) for name in names])
        for token in self.tokens:
            if token.token_id not in names:
                self.tokens.drop(token.token_id)
        for name, node in zip(names, nodes, strict=True):
            self._apply(name, None if node is None else node[0])

    async def follow(self, *, reload: bool) -> None:
        """Apply changes until cancelled, or until the session expires: then call it again, with `reload`.

        Args:
            reload: Whether to read every token first: those of an expired session may be out of date.
        """
        try:
            if reload:
                await self.load()
            await self._changes.follow(self._changed)
        except SessionExpiredError:
            logger.info("delegation tokens stay as they are until the session is renewed")

    async def store(self, token: DelegationToken) -> None:
        """Write a token, keep it in memory, and announce it."""
        path, data = TokenZnode.path(token.token_id), TokenZnode.encode(_stored(token))
        while True:
            try:
                await self._zookeeper.set(path, data, ANY_VERSION)
            except ConnectionLossError:
                continue
            except NoNodeError:
                try:
                    await self._zookeeper.create(path, data, make_parents=True)
                except (NodeExistsError, ConnectionLossError):
                    continue
            break
        self.tokens.keep(token)
        await self._announce(token.token_id)

    async def remove(self, token_id: str) -> None:
        """Delete a token, drop it from memory, and announce that."""
        while True:
            try:
                await self._zookeeper.delete(TokenZnode.path(token_id), ANY_VERSION)
            except ConnectionLossError:
                continue
            except NoNodeError:
                pass
            break
        self.tokens.drop(token_id)
        await self._announce(token_id)

    async def remove_expired(self, now_ms: "WallMs") -> None:
        """Delete the expired tokens; only the controller calls this."""
        for token in self.tokens.over(now_ms):
            await self.remove(token.token_id)
            logger.info("removed the expired delegation token %s of %s", token.token_id, token.owner)

    async def _changed(self, path: str, data: bytes) -> None:
        token_id = TokenChangeZnode.decode(data)
        if not token_id or "/" in token_id:
            logger.warning("%s is skipped: it names no token", path)
            return
        node = await self._reader.read_node(TokenZnode.path(token_id))
        self._apply(token_id, None if node is None else node[0])

    def _apply(self, token_id: str, data: bytes | None) -> None:
        if data is None or self.tokens.settings is None:
            self.tokens.drop(token_id)
            return
        try:
            found = TokenZnode.decode(data)
        except MalformedZnodeError:
            logger.warning("the delegation token %s is left out: its node does not parse", token_id)
            return
        if found.token_id != token_id:
            logger.warning("the delegation token %s is left out: its node has another id", token_id)
            return
        self.tokens.keep(
            DelegationToken(
                found.token_id,
                found.owner,
                found.requester,
                found.renewers,
                found.issued_ms,
                found.max_ms,
                found.expires_ms,
                self.tokens.sign(found.token_id),
            )
        )

    async def _announce(self, token_id: str) -> None:
        data = TokenChangeZnode.encode(token_id)
        while True:
            try:
                await self._zookeeper.create(TokenChangeZnode.PREFIX, data, sequence=True, make_parents=True)
            except ConnectionLossError:
                continue
            return


def _stored(token: DelegationToken) -> StoredToken:
    return StoredToken(
        token.token_id,
        token.owner,
        token.requester,
        token.renewers,
        token.issued_ms,
        token.max_ms,
        token.expires_ms,
    )
