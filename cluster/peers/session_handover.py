"""Handing the key of this broker's ZooKeeper session to the brokers that watch over it: its witnesses.

The key stays in their memory. It is handed over again when the session, the witnesses or their addresses change, and at
intervals, because a witness that was restarted has forgotten it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

import trio

from cluster.statemachines.peer_liveness import choose_witnesses
from wire.messages.watch_session import WatchSessionRequest

if TYPE_CHECKING:
    from cluster.peers.peer_requests import PeerRequests
    from cluster.replication.metadata_cache import MetadataCache, Node
    from cluster.zookeeper.session_closer import SessionKey
    from wire.types import BrokerEpoch, BrokerId

LOOK_S: Final = 0.5
"""How often to check whether something has changed."""
REPEAT_S: Final = 3.0
"""How often a key is handed over again."""
_WITHDRAW_S: Final = 0.3


class _Handed(NamedTuple):
    node: "Node"
    session_id: int
    at: float


class SessionHandover:
    """Keeps the witnesses of one broker's session supplied with its key.

    Args:
        broker_id: This broker.
        listener: The listener that brokers talk to each other on.
        metadata: Which brokers are live, and which is the controller.
        requests: Asks other brokers.
        session_key: Returns the key of the present session.
        broker_epoch: Returns the epoch of the present registration.
    """

    def __init__(
        self,
        broker_id: "BrokerId",
        listener: str,
        metadata: "MetadataCache",
        requests: "PeerRequests",
        session_key: "Callable[[], SessionKey]",
        broker_epoch: "Callable[[], BrokerEpoch]",
    ) -> None:
        self._broker_id = broker_id
        self._listener = listener
        self._metadata = metadata
        self._requests = requests
        self._session_key = session_key
        self._broker_epoch = broker_epoch
        self._handed: dict[BrokerId, _Handed] = {}

    async def run(self) -> NoReturn:
        """Hand the key over until cancelled."""
        while True:
            async with trio.open_nursery() as nursery:
                for node in self._witnesses():
                    if self._is_due(node):
                        nursery.start_soon(self._hand_over, node)
            await trio.sleep(LOOK_S)

    async def withdraw(self) -> None:
        """Have the witnesses forget the key before an orderly shutdown; waits `_WITHDRAW_S` at most."""
        handed, self._handed = self._handed, {}
        with trio.move_on_after(_WITHDRAW_S):
            async with trio.open_nursery() as nursery:
                for each in handed.values():
                    nursery.start_soon(self._send, each.node, b"")

    def _witnesses(self) -> list["Node"]:
        snapshot = self._metadata.snapshot
        nodes = {
            broker_id: node
            for broker_id, broker in snapshot.brokers.items()
            if (node := broker.nodes.get(self._listener)) is not None
        }
        self._requests.forget(set(nodes.values()))
        able = [each for each, node in nodes.items() if self._requests.is_known_to_serve(node) is not False]
        return [nodes[each] for each in choose_witnesses(self._broker_id, snapshot.controller_id, able)]

    def _is_due(self, node: "Node") -> bool:
        handed = self._handed.get(node.broker_id)
        return (
            handed is None
            or (handed.node, handed.session_id) != (node, self._session_key().session_id)
            or trio.current_time() - handed.at >= REPEAT_S
        )

    async def _hand_over(self, node: "Node") -> None:
        key = self._session_key()
        if await self._send(node, key.password):
            self._handed[node.broker_id] = _Handed(node, key.session_id, trio.current_time())

    async def _send(self, node: "Node", password: bytes) -> bool:
        key = self._session_key()
        request = WatchSessionRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            session_id=key.session_id,
            password=password,
            timeout_ms=int(key.timeout_s * 1000),
        )
        try:
            return await self._requests.ask(node, request) is not None
        except OSError:
            return False  # it is asked again
