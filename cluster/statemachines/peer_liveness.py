"""When a broker that watches another's ZooKeeper session considers that broker dead, and which brokers watch which.

Closing a session is safe at any time: its expiry does the same, and epochs fence the rest. But a live broker loses its
leaderships by it, so the evidence has to be good:

- A broker that a connection can be made to is alive, however long it does not answer: its kernel answers, and if its
  loop hangs, its guardian kills it.
- A connection that the other side ended, when no new one can be made, is what the death of a process leaves behind;
  that is enough, unless any other broker can connect. A refused connection to an address where the broker has answered
  counts the same.
- The kernel closes the files of a killed process one after another: for a moment new connections are accepted although
  the former one has been ended. So a connection that can be made proves that the broker is alive now, but does not
  cancel the end of the former one; only an answer does, or time.
- Silence alone, without a connection that was ended, may be our own network's fault. It counts only past the limit, and
  only if most of the registered brokers, we among them, cannot connect. A broker that is alone in its belief does
  nothing.

Only time in which the watching broker itself was awake counts.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from wire.types import BrokerId

WITNESSES = 3
"""How many brokers hold the key of a broker's session."""


class Observation(Enum):
    """The outcome of asking the watched broker for a sign of life."""

    ANSWERED = "answered"
    REACHED = "reached"  # it does not answer in time, but a connection can be made
    ENDED = "ended"  # the other side ended the connection
    REFUSED = "refused"  # the connection was refused at an address where the broker has answered
    NOT_REACHED = "not reached"  # no connection can be made
    NOTHING = "nothing"  # our own network is down: that says nothing about others


@dataclass(frozen=True, slots=True)
class PeerLiveness:
    """What is known of a watched broker since it last answered.

    Attributes:
        silent_s: For how long it could not be reached, in seconds that we were awake.
        ended_s: How many seconds ago its side last ended our connection, or first refused one; None if it has not.
    """

    silent_s: float = 0.0
    ended_s: float | None = None

    @property
    def was_ended(self) -> bool:
        """Whether its side ended or refused a connection, without an answer since."""
        return self.ended_s is not None


def observe(
    liveness: PeerLiveness, observation: Observation, elapsed_s: float, limit_s: float
) -> PeerLiveness:
    """Return what is known after an observation.

    Args:
        liveness: What was known.
        observation: The new observation.
        elapsed_s: The time since the last observation in which we were awake.
        limit_s: How long a broker may be silent.
    """
    ended_s = None if liveness.ended_s is None else liveness.ended_s + elapsed_s
    match observation:
        case Observation.ANSWERED:
            return PeerLiveness()
        case Observation.REACHED:
            return PeerLiveness(0.0, None if ended_s is None or ended_s > limit_s else ended_s)
        case Observation.ENDED:
            return PeerLiveness(liveness.silent_s + elapsed_s, 0.0)
        case Observation.REFUSED:
            return PeerLiveness(liveness.silent_s + elapsed_s, 0.0 if ended_s is None else ended_s)
        case Observation.NOT_REACHED:
            return PeerLiveness(liveness.silent_s + elapsed_s, ended_s)
        case Observation.NOTHING:
            return liveness


def seems_dead(liveness: PeerLiveness, limit_s: float) -> bool:
    """Whether clients should look for another leader: up to the limit after its side ended our connection."""
    return liveness.ended_s is not None and liveness.ended_s <= limit_s


def is_suspect(liveness: PeerLiveness, observation: Observation, limit_s: float) -> bool:
    """Whether it is time to ask the other brokers."""
    if observation not in (Observation.NOT_REACHED, Observation.REFUSED):
        return False
    return liveness.was_ended or liveness.silent_s > limit_s


def is_dead(liveness: PeerLiveness, votes: Collection[bool], registered: int) -> bool:
    """Return whether a suspect is dead.

    Args:
        liveness: What we know ourselves.
        votes: Of each other broker that answered, whether it can connect to the suspect.
        registered: How many brokers are registered, the suspect and we ourselves among them.
    """
    if any(votes):
        return False
    return liveness.was_ended or 2 * (1 + len(votes)) > registered


def choose_witnesses(
    broker_id: BrokerId, controller_id: BrokerId | None, candidates: Collection[BrokerId]
) -> tuple[BrokerId, ...]:
    """Choose who holds the key of a broker's session: the controller, and the next brokers in the ring of ids.

    Args:
        broker_id: The broker.
        controller_id: The active controller, None if none is known.
        candidates: Brokers that can hold keys.
    """
    others = sorted(each for each in candidates if each != broker_id)
    ring = [each for each in others if each > broker_id] + [each for each in others if each < broker_id]
    first = [controller_id] if controller_id in others and controller_id is not None else []
    return tuple(dict.fromkeys([*first, *ring]))[:WITNESSES]
