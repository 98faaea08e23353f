"""The errors of transactions that each version can carry: the one place that maps them.

Old clients know fewer codes, and treat unknown ones as fatal.
"""

from typing import TYPE_CHECKING, Final

from wire.apis import ApiKey
from wire.errors import Error

if TYPE_CHECKING:
    from cluster.handlers.call import ApiCall
    from cluster.handlers.context import CallContext

_OLD: Final[dict[tuple[ApiKey, Error], tuple[int, Error]]] = {
    (ApiKey.INIT_PRODUCER_ID, Error.PRODUCER_FENCED): (4, Error.INVALID_PRODUCER_EPOCH),
    (ApiKey.ADD_PARTITIONS_TO_TXN, Error.PRODUCER_FENCED): (2, Error.INVALID_PRODUCER_EPOCH),
    (ApiKey.ADD_OFFSETS_TO_TXN, Error.PRODUCER_FENCED): (2, Error.INVALID_PRODUCER_EPOCH),
    (ApiKey.END_TXN, Error.PRODUCER_FENCED): (2, Error.INVALID_PRODUCER_EPOCH),
    # Leaders of Kafka 3.6 and 3.7 send version 4 and do not know the newer code.
    (ApiKey.ADD_PARTITIONS_TO_TXN, Error.TRANSACTION_ABORTABLE): (5, Error.INVALID_TXN_STATE),
    (ApiKey.PRODUCE, Error.TRANSACTION_ABORTABLE): (11, Error.INVALID_TXN_STATE),
    (ApiKey.TXN_OFFSET_COMMIT, Error.TRANSACTION_ABORTABLE): (4, Error.INVALID_TXN_STATE),
    # KAFKA-7296
    (ApiKey.TXN_OFFSET_COMMIT, Error.COORDINATOR_LOAD_IN_PROGRESS): (2, Error.COORDINATOR_NOT_AVAILABLE),
}
"""By API and error: the first version that can carry it, and the error for older ones."""


def known_error(call: "ApiCall[CallContext]", key: ApiKey, error: Error) -> Error:
    """Return an error in a form that the version of a request can carry."""
    mapped = _OLD.get((key, error))
    return error if mapped is None or call.version >= mapped[0] else mapped[1]
