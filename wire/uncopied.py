"""Records that a request carries without a copy of them in its frame."""


class UncopiedRecords:
    """Whole batches that are sent from their own buffer, between the other bytes of a request.

    Attributes:
        data: the batches; not to be changed before they are sent.
        size: in bytes.
    """

    __slots__ = ("data", "size")

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.size = len(data)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<{self.size} bytes of records, not copied>"
