"""Asking the coordinator of a group or of a transactional id, wherever it is at the moment.

NOT_COORDINATOR always leads to FindCoordinator, with back-off and at any broker. The connection is not shared, so that
requests do not queue behind waiting fetches.
"""

from typing import Any, Final

from ottla.client import runtime
from ottla.client.context import ClientContext
from ottla.client.errors import BootstrapError, BrokerUnreachable, error_for
from wire.apis import ApiKey
from wire.errors import Error
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.schema import Request
from wire.types import BrokerId

GROUP: Final = 0
TRANSACTION: Final = 1
_FIND_MAX: Final = 5
_KEYS_FROM: Final = 4


class CoordinatorLink:
    """The way to one coordinator.

    Args:
        context: The client's connections.
        kind: `GROUP` or `TRANSACTION`.
        key: The group id or the transactional id.
    """

    def __init__(self, context: ClientContext, kind: int, key: str) -> None:
        self._context = context
        self._kind = kind
        self._key = key
        self._what = f"{'group' if kind == GROUP else 'transactional id'} {key!r}"
        # Of its own: a join of another member of this client would hold up what stands behind it.
        self._purpose = f"{self._what} {id(self)}"
        self._broker: BrokerId | None = None

    async def ask(
        self, message: Request, *, timeout_s: float | None = None, at_most: int | None = None
    ) -> Any:
        """Send a request to the coordinator; return the answer.

        Raises:
            BrokerUnreachable: The connection broke: whether it was carried out is unknown. The next call looks for
                the coordinator anew.
            NotAuthorized: The principal may not use the group or transactional id.
        """
        if self._broker is None:
            self._broker = await self._find()
        try:
            link = await self._context.links.get(self._broker, self._purpose)
            return await link.request(message, timeout_s=timeout_s, at_most=at_most)
        except BrokerUnreachable:
            self.forget()
            raise

    def forget(self) -> None:
        """Look for the coordinator anew at the next call."""
        self._broker = None

    def close(self) -> None:
        """Close the connections that were made for this."""
        self._context.links.close_purpose(self._purpose)

    async def _find(self) -> BrokerId:
        failures = 0
        while True:
            try:
                link = await self._context.links.any()
                many = link.serves(ApiKey.FIND_COORDINATOR, _KEYS_FROM)
                request = FindCoordinatorRequest(
                    key="" if many else self._key,
                    key_type=self._kind,
                    coordinator_keys=[self._key] if many else [],
                )
                answer = await link.request(request, at_most=_FIND_MAX)
            except (BrokerUnreachable, BootstrapError):
                pass
            else:
                found = answer.coordinators[0] if many else answer
                error = Error.from_code(found.error_code)
                if error is Error.NONE:
                    if found.node_id in self._context.metadata.brokers:
                        return BrokerId(found.node_id)
                    self._context.refresh.ask()
                elif not error.retriable:
                    raise error_for(error, self._what, message=found.error_message)
            await runtime.sleep(self._context.retry_backoff.delay_s(failures))
            failures += 1
