"""Proof that a transactional batch belongs to a transaction that its coordinator knows (KIP-890, part 1).

A batch that arrives after its transaction's marker would open a transaction that nobody ends. So before a producer's
first batch of a transaction is appended, the coordinator is asked. The question takes a *token* from here, and the
batch is appended only if the producer's entry still has that very token: any transactional append, of data or of a
marker, drops the entry, so that an answer is void if a marker, or a marker and the next transaction, overtook it.
"""

from typing import Final

from wire.types import ProducerEpoch, ProducerId, WallMs


class VerificationToken:
    """Stands for one question to a coordinator; equal to nothing but itself."""

    __slots__ = ()


NO_TOKEN: Final = VerificationToken()
"""The token of no question: a batch with it is appended only to a transaction that is already open."""


class VerificationEntry:
    """What is under verification for one producer in one partition.

    Attributes:
        token: What the append must bring; it stays when a newer epoch asks.
        epoch: The newest epoch that asked.
        lowest_sequence: The lowest sequence number of that epoch: a batch behind one that failed its verification
            must not become the first of the transaction (KAFKA-14920).
        since: When the entry was made.
    """

    __slots__ = ("epoch", "lowest_sequence", "since", "token")

    def __init__(self, epoch: ProducerEpoch, sequence: int, since: WallMs) -> None:
        self.token = VerificationToken()
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.since = since


class Verifications:
    """The verification entries of one partition, by producer."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[ProducerId, VerificationEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def begin(
        self, producer_id: ProducerId, epoch: ProducerEpoch, sequence: int, now: WallMs
    ) -> VerificationToken:
        """Return the token for a question about a producer's batch; a question under way shares its token."""
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = VerificationEntry(epoch, sequence, now)
        elif epoch > entry.epoch:
            entry.epoch, entry.lowest_sequence = epoch, sequence
        elif epoch == entry.epoch and sequence < entry.lowest_sequence:
            entry.lowest_sequence = sequence
        return entry.token

    def get(self, producer_id: ProducerId) -> VerificationEntry | None:
        """Return a producer's entry."""
        return self._entries.get(producer_id)

    def end(self, producer_id: ProducerId) -> None:
        """Drop a producer's entry: something of its transactions was appended."""
        if self._entries:
            self._entries.pop(producer_id, None)

    def remove_expired(self, now: WallMs, expiration_ms: int) -> None:
        """Drop the entries that are at least as old as the producer expiration."""
        for producer_id, entry in tuple(self._entries.items()):
            if now - entry.since >= expiration_ms:
                del self._entries[producer_id]

    def take_over(self, other: "Verifications") -> None:
        """Adopt the entries of the same partition in a log that is being discarded."""
        self._entries = dict(other._entries)

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
