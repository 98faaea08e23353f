"""The API versions that a broker uses towards other brokers, by ``inter.broker.protocol.version``.

Brokers do not negotiate with each other: during a rolling upgrade this setting stays at the old release until every
broker understands the new one.
"""

from typing import Final, NamedTuple


class InterBrokerVersions(NamedTuple):
    """The API versions of one release."""

    fetch: int
    list_offsets: int


FETCH_BY_NAME: Final = 12
"""The version to fall back to if a topic has no id: the last one that names topics."""

_VERSIONS: Final[tuple[tuple[tuple[int, int], InterBrokerVersions], ...]] = (
    ((3, 0), InterBrokerVersions(fetch=12, list_offsets=7)),
    ((3, 1), InterBrokerVersions(fetch=13, list_offsets=7)),
    ((3, 5), InterBrokerVersions(fetch=15, list_offsets=8)),
    ((3, 7), InterBrokerVersions(fetch=16, list_offsets=8)),
    ((3, 9), InterBrokerVersions(fetch=17, list_offsets=9)),
)


def inter_broker_versions(release: str) -> InterBrokerVersions:
    """Return the API versions of a release, such as ``3.9`` or ``3.9-IV0``.

    Raises:
        ValueError: it is a release before 3.0, or not a release.
    """
    major, minor = (int(part) for part in release.split("-")[0].split(".")[:2])
    found = [versions for since, versions in _VERSIONS if since <= (major, minor)]
    if not found:
        raise ValueError(f"inter.broker.protocol.version {release} is older than 3.0")
    return found[-1]
