"""The states of a consumer.

- Between a lost session and the next registration nothing is owned, fetched or committed.
- A change that comes while the consumer rebalances is handled after it: many make one more rebalance.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class EndState(Enum):
    """Where a consumer stands.

    Attributes:
        IDLE: It has no streams yet.
        UNREGISTERED: It has streams and no registration: its session is over, or has not been used yet.
        REBALANCING: It reads the group, and claims its part.
        BACKING_OFF: An attempt failed; nothing is owned until the next one.
        WAITING_FOR_BROKERS: There is none to fetch from: it owns nothing until one registers.
        CONSUMING: It owns its part.
        FAILED: All attempts failed; a change in the group begins another rebalance.
        CLOSED: It has left.
    """

    IDLE = "idle"
    UNREGISTERED = "unregistered"
    REBALANCING = "rebalancing"
    BACKING_OFF = "backing off"
    WAITING_FOR_BROKERS = "waiting for brokers"
    CONSUMING = "consuming"
    FAILED = "failed"
    CLOSED = "closed"


class EndEvent(Enum):
    """What happens to a consumer."""

    SUBSCRIBED = "subscribed"
    REGISTERED = "registered"
    CLAIMED = "claimed"
    NO_BROKERS = "no brokers"
    ATTEMPT_FAILED = "attempt failed"
    BACKED_OFF = "backed off"
    RETRIES_EXHAUSTED = "retries exhausted"
    CHANGED = "changed"
    SESSION_LOST = "session lost"
    CLOSED = "closed"


class IllegalEndTransition(Exception):
    """An event came in a state in which it is not allowed."""

    def __init__(self, state: EndState, event: EndEvent) -> None:
        super().__init__(f"{event.value} while {state.value}")


_REGISTERED_STATES: Final = (
    EndState.REBALANCING,
    EndState.BACKING_OFF,
    EndState.WAITING_FOR_BROKERS,
    EndState.CONSUMING,
    EndState.FAILED,
)

TRANSITIONS: Final[Mapping[tuple[EndState, EndEvent], EndState]] = {
    (EndState.IDLE, EndEvent.SUBSCRIBED): EndState.UNREGISTERED,
    (EndState.UNREGISTERED, EndEvent.REGISTERED): EndState.REBALANCING,
    (EndState.UNREGISTERED, EndEvent.SESSION_LOST): EndState.UNREGISTERED,
    (EndState.REBALANCING, EndEvent.CLAIMED): EndState.CONSUMING,
    (EndState.REBALANCING, EndEvent.NO_BROKERS): EndState.WAITING_FOR_BROKERS,
    (EndState.REBALANCING, EndEvent.ATTEMPT_FAILED): EndState.BACKING_OFF,
    (EndState.BACKING_OFF, EndEvent.BACKED_OFF): EndState.REBALANCING,
    (EndState.BACKING_OFF, EndEvent.RETRIES_EXHAUSTED): EndState.FAILED,
    (EndState.WAITING_FOR_BROKERS, EndEvent.CHANGED): EndState.REBALANCING,
    (EndState.CONSUMING, EndEvent.CHANGED): EndState.REBALANCING,
    (EndState.FAILED, EndEvent.CHANGED): EndState.REBALANCING,
    **{(state, EndEvent.SESSION_LOST): EndState.UNREGISTERED for state in _REGISTERED_STATES},
    **{(state, EndEvent.CLOSED): EndState.CLOSED for state in EndState if state is not EndState.CLOSED},
}


def advance(state: EndState, event: EndEvent) -> EndState:
    """Return the state after an event.

    Raises:
        IllegalEndTransition: The event is not allowed in that state.
    """
    if (state, event) not in TRANSITIONS:
        raise IllegalEndTransition(state, event)
    return TRANSITIONS[state, event]
