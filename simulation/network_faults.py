"""What a simulated network does by chance."""

from dataclasses import dataclass


@dataclass(slots=True)
class NetworkFaults:
    """The chances of faults. Its values may be changed while the network runs.

    Attributes:
        delay_s: The least and the most that a send takes to arrive, in seconds.
        stall_chance: Of a send, to take longer.
        stall_s: The least and the most of that, in seconds.
        split_chance: Of a send, to arrive in two pieces.
        reset_chance: Of a send, to break its connection.
    """

    delay_s: tuple[float, float] = (0.0001, 0.001)
    stall_chance: float = 0.0
    stall_s: tuple[float, float] = (0.05, 0.5)
    split_chance: float = 0.1
    reset_chance: float = 0.0
