"""The settings of the transaction coordinator, as Kafka names them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The settings of the transaction coordinator; times in milliseconds."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    timeout_check_ms: int = 10_000
    expiration_check_ms: int = 3_600_000
    request_timeout_ms: int = 30_000
    load_buffer_size: int = 5 * 1024 * 1024
