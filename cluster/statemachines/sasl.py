"""A connection on a SASL listener until its first request: which frame may come next.

Rules:

- ApiVersions is answered once, before the handshake; a version that we do not serve, or a malformed software
  name, is answered with an error and may be asked again (KIP-511).
- The handshake names the mechanism, and its version says how tokens travel: bare after version 0, in
  SaslAuthenticate after version 1.
- A second authentication of a connection (KIP-368) begins at ``HANDSHAKE``: ApiVersions is not allowed then.

The table is the only statement of what is legal: tests and documents are derived from it.
"""

from collections.abc import Mapping
from enum import Enum

from cluster.statemachines.transition import IllegalTransition


class SaslState(Enum):
    """What the broker waits for."""

    INITIAL = "initial"
    """ApiVersions or the handshake."""
    HANDSHAKE = "handshake"
    """The handshake only."""
    BARE_TOKENS = "bare tokens"
    """Tokens in frames without a header; an answer is a token too."""
    TOKENS = "tokens"
    """SaslAuthenticate."""
    DONE = "done"
    """Nothing: the peer has proved its identity, and its requests go to the handlers."""
    FAILED = "failed"
    """Nothing: the connection is about to be closed."""


class SaslEvent(Enum):
    """What came, and what the broker made of it."""

    VERSIONS_ANSWERED = "ApiVersions was answered"
    VERSIONS_REFUSED = "ApiVersions was answered with an error"
    BARE_MECHANISM_CHOSEN = "SaslHandshake version 0 named an enabled mechanism"
    MECHANISM_CHOSEN = "SaslHandshake version 1 named an enabled mechanism"
    CHALLENGED = "the mechanism asks for another token"
    PROVEN = "the peer proved its identity"
    REFUSED = "the peer cannot be authenticated"


TRANSITIONS: Mapping[tuple[SaslState, SaslEvent], SaslState] = {
    (SaslState.INITIAL, SaslEvent.VERSIONS_ANSWERED): SaslState.HANDSHAKE,
    (SaslState.INITIAL, SaslEvent.VERSIONS_REFUSED): SaslState.INITIAL,
    (SaslState.INITIAL, SaslEvent.BARE_MECHANISM_CHOSEN): SaslState.BARE_TOKENS,
    (SaslState.INITIAL, SaslEvent.MECHANISM_CHOSEN): SaslState.TOKENS,
    (SaslState.INITIAL, SaslEvent.REFUSED): SaslState.FAILED,
    (SaslState.HANDSHAKE, SaslEvent.BARE_MECHANISM_CHOSEN): SaslState.BARE_TOKENS,
    (SaslState.HANDSHAKE, SaslEvent.MECHANISM_CHOSEN): SaslState.TOKENS,
    (SaslState.HANDSHAKE, SaslEvent.REFUSED): SaslState.FAILED,
    (SaslState.BARE_TOKENS, SaslEvent.CHALLENGED): SaslState.BARE_TOKENS,
    (SaslState.BARE_TOKENS, SaslEvent.PROVEN): SaslState.DONE,
    (SaslState.BARE_TOKENS, SaslEvent.REFUSED): SaslState.FAILED,
    (SaslState.TOKENS, SaslEvent.CHALLENGED): SaslState.TOKENS,
    (SaslState.TOKENS, SaslEvent.PROVEN): SaslState.DONE,
    (SaslState.TOKENS, SaslEvent.REFUSED): SaslState.FAILED,
}


def step(state: SaslState, event: SaslEvent) -> SaslState:
    """Return the state after ``event``.

    Raises:
        IllegalTransition: the table does not name the pair.
    """
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(state, event) from None
