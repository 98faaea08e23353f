"""What every machine here does with an event that its table does not name."""


class IllegalTransition(Exception):
    """An event was applied in a state that its table does not allow it in; nothing was changed.

    It is our own fault, never a peer's: the caller that applies events checks ``allows`` first where the state is
    open.

    Attributes:
        state: The state that stays as it was.
        event: The event that was refused.
    """

    def __init__(self, state: object, event: object) -> None:
        super().__init__(f"{event!r} is not legal in state {state!r}")
        self.state = state
        self.event = event
