"""Requests that end transactions are not carried out if the client has closed its connection."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster.handlers import end_txn, write_txn_markers
from tests.unit.handlers.calls import Broker, Connection, KeptCall
from wire.messages.end_txn import EndTxnRequest
from wire.messages.write_txn_markers import WriteTxnMarkersRequest


@dataclass(eq=False)
class Transactions:
    """Stands in for the coordinator and the writer of markers."""

    done: list[str] = field(default_factory=list)

    @property
    def coordinator(self) -> "Transactions":
        return self

    @property
    def marker_writes(self) -> "Transactions":
        return self

    def end(self, *arguments: Any, **named: Any) -> None:
        self.done.append("end")

    def write(self, *arguments: Any) -> None:
        self.done.append("write")


@dataclass(eq=False)
class TransactionBroker(Broker):
    transactions: Transactions = field(default_factory=Transactions)


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize(
    ("begin", "request_", "what"),
    [
        (end_txn.begin, EndTxnRequest(transactional_id="t", committed=True), "end"),
        (write_txn_markers.begin, WriteTxnMarkersRequest(), "write"),
    ],
)
def test_what_was_sent_before_the_client_closed_is_not_carried_out(
    begin, request_, what: str, gone: bool
) -> None:
    broker = TransactionBroker()
    call = KeptCall(broker, request_, 1, connection=Connection(peer_has_gone=gone))
    begin(call)
    assert broker.transactions.done == ([] if gone else [what])
    assert call.connection.is_closed == gone
