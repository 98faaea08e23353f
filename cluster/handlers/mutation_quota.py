"""Making and removing partitions within a client's quota (KIP-599).

Strict requests, those of versions that know the error, are refused while their client owes partitions. Older ones are
carried out, and their client is held back afterwards.
"""

from typing import TYPE_CHECKING

from wire.errors import ApiError, Error

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import CallContext


class MutationAllowance:
    """The partitions that a request may create or remove within its client's quota.

    Args:
        call: The request.
        strict: Whether it is refused, topic by topic, while its client is over quota.
    """

    __slots__ = ("_call", "_strict")

    def __init__(self, call: "ApiCall[CallContext]", *, strict: bool) -> None:
        self._call = call
        self._strict = strict

    def take(self, partitions: int) -> None:
        """Charge partitions that are about to be created or removed.

        Raises:
            ApiError: the client is over quota, and the request is strict.
        """
        throttling = self._call.broker.throttling
        if throttling is None:
            return
        if self._strict and throttling.mutation_exceeded_ms(self._call) > 0:
            raise ApiError(Error.THROTTLING_QUOTA_EXCEEDED, "over the quota of partitions made and removed")
        throttling.record_mutations(self._call, partitions)

    def give_back(self, partitions: int) -> None:
        """Take back a charge: nothing was created or removed."""
        throttling = self._call.broker.throttling
        if throttling is not None:
            throttling.record_mutations(self._call, -partitions)

    def settle(self) -> None:
        """Throttle the client for as long as it is over quota, and note the time for the answer."""
        throttling = self._call.broker.throttling
        if throttling is not None:
            throttling.hold_for_mutations(self._call)
