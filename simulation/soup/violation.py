"""The exception that ends a run when an invariant is violated."""


class Violation(Exception):
    """An invariant does not hold.

    Attributes:
        invariant: Its number, as I1, or a word for what has none: a bug, a hang.
    """

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.invariant = invariant
