"""The settings of key stores and trust stores that can change while a broker runs, for individual listeners."""

from typing import Final

STORE_SETTINGS: Final = frozenset(
    {
        "ssl.key.password",
        *(f"ssl.keystore.{part}" for part in ("type", "location", "password", "key", "certificate.chain")),
        *(f"ssl.truststore.{part}" for part in ("type", "location", "password", "certificates")),
    }
)
"""As in Kafka, only under a listener's prefix, and only for one broker."""
