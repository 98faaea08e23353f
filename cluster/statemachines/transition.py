"""The error that every machine here raises for an event that its table does not name."""


class IllegalTransition(Exception):
    """An event was applied in a state that its table does not allow it in; nothing was changed.

    It is our own fault, never a peer's: a caller that does not know the state checks ``allows`` first.

    Attributes:
        state: The state that stays as it was.
        event: The event that was refused.
    """

    def __init__(self, state: object, event: object) -> None:
        super().__init__(f"{event!r} is not legal in state {state!r}")
        self.state = state
        self.event = event
