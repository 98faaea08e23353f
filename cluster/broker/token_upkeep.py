"""Delegation tokens over a broker's life: created from the configuration, followed, removed when expired."""

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from cluster.security.delegation_tokens import DelegationTokens, TokenSettings
from cluster.zookeeper.client import ZooKeeperError
from cluster.zookeeper.stored_tokens import StoredTokens

if TYPE_CHECKING:
    from cluster.broker.registration import Registration
    from cluster.configuration.broker_config import BrokerConfig
    from cluster.handlers.context import BrokerContext
    from cluster.zookeeper.client import ZooKeeper
    from wire.types import WallMs

_LOOK_S: Final = 5.0
"""How often a broker checks whether it has become the controller."""

logger = logging.getLogger(__name__)


def stored_tokens(
    config: "BrokerConfig", zookeeper: "ZooKeeper", wall_ms: "Callable[[], WallMs]"
) -> StoredTokens:
    """Make the tokens of a broker, disabled without a secret; none is read yet."""
    secret = config.delegation_token_secret_key or config.delegation_token_master_key
    settings = None
    if secret:
        settings = TokenSettings(
            secret,
            config.delegation_token_max_lifetime_ms,
            config.delegation_token_expiry_time_ms,
            config.delegation_token_expiry_check_interval_ms,
        )
    return StoredTokens(DelegationTokens(settings), zookeeper, wall_ms)


async def follow_tokens(tokens: StoredTokens, registration: "Registration") -> NoReturn:
    """Keep tokens as ZooKeeper has them, across sessions, until cancelled."""
    await tokens.follow(reload=False)
    while True:
        await trio.lowlevel.checkpoint()
        await registration.wait_member()
        await tokens.follow(reload=True)


async def sweep_tokens(context: "BrokerContext") -> NoReturn:
    """Remove expired tokens while this broker is the controller, until cancelled."""
    settings = context.tokens.tokens.settings
    if settings is None:
        await trio.sleep_forever()
    interval_s = settings.sweep_interval_ms / 1000
    swept_s = -math.inf
    while True:
        now_s = context.clock.monotonic()
        if not context.controller.is_active:
            swept_s = -math.inf  # a new controller begins at once
        elif now_s - swept_s >= interval_s:
            swept_s = now_s
            try:
                await context.tokens.remove_expired(context.clock.wall_ms())
            except ZooKeeperError as error:
                logger.warning("expired delegation tokens stay for now: %s", error)
        await trio.sleep(min(interval_s, _LOOK_S))
