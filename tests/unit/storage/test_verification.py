"""Only what a coordinator has confirmed opens a transaction (KIP-890): tokens, and what drops them."""

import pytest

from storage.errors import InvalidProducerEpochError, InvalidTransactionStateError, OutOfOrderSequenceError
from storage.log import AppendOrigin, Log
from storage.log_config import LogConfig
from storage.verification import NO_TOKEN, VerificationToken
from tests.unit.storage.samples import PARTITION, TestClock, batch, marker, open_store, simulated
from wire.types import LeaderEpoch, ProducerEpoch, ProducerId, WallMs

NOW = WallMs(1_000_000)
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def log() -> Log:
    return open_store(simulated(), TestClock()).create(PARTITION)


def ask(log: Log, sequence: int = 0, epoch: int = 0) -> VerificationToken:
    return log.producer_state.verifications.begin(ProducerId(1), ProducerEpoch(epoch), sequence, NOW)


def send(
    log: Log,
    token: VerificationToken | None,
    sequence: int = 0,
    epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> int:
    records = batch([b"v"], producer=1, sequence=sequence, epoch=epoch, transactional=True)
    return log.append_as_leader(records, LeaderEpoch(0), NOW, origin=origin, token=token).first_offset


def end(log: Log, *, commit: bool = True, epoch: int = 0) -> None:
    log.append_as_leader(
        marker(1, committed=commit, epoch=epoch), LeaderEpoch(0), NOW, origin=AppendOrigin.COORDINATOR
    )


@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_a_transaction_is_opened_by_its_token_only(log: Log, origin: AppendOrigin) -> None:
    with pytest.raises(InvalidTransactionStateError):
        send(log, NO_TOKEN, origin=origin)
    token = ask(log)
    with pytest.raises(InvalidTransactionStateError):
        send(log, NO_TOKEN, origin=origin)
    assert send(log, token, origin=origin) == 0
    # The transaction is open now: no further verification is needed.
    assert send(log, NO_TOKEN, sequence=1, origin=origin) == 1
    assert not len(log.producer_state.verifications)


def test_an_answer_that_a_marker_has_overtaken_opens_nothing(log: Log) -> None:
    token = ask(log)
    end(log)
    with pytest.raises(InvalidTransactionStateError):
        send(log, token)
    assert log.producer_state.first_open_offset is None


def test_an_answer_that_a_whole_transaction_has_overtaken_opens_nothing(log: Log) -> None:
    late = ask(log)
    assert send(log, ask(log)) == 0
    end(log)
    again = ask(log, sequence=1)
    with pytest.raises(InvalidTransactionStateError):
        send(log, late, sequence=1)
    assert send(log, again, sequence=1) == 2


def test_a_transaction_of_an_older_epoch_does_not_stand_for_a_newer_one(log: Log) -> None:
    send(log, ask(log))
    with pytest.raises(InvalidTransactionStateError):
        send(log, NO_TOKEN, epoch=1)


def test_a_fenced_producer_learns_of_its_fence_first(log: Log) -> None:
    end(log, commit=False, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        send(log, NO_TOKEN)


def test_a_batch_behind_one_that_was_not_appended_is_a_gap(log: Log) -> None:
    token = ask(log)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, token, sequence=1)
    assert ask(log, sequence=1) is token
    assert [send(log, token, sequence=each) for each in (0, 1)] == [0, 1]


def test_a_newer_epoch_asks_for_its_own_sequence(log: Log) -> None:
    token = ask(log, sequence=7)
    assert ask(log, sequence=0, epoch=1) is token
    assert send(log, token, sequence=0, epoch=1) == 0


def test_a_repeated_batch_needs_no_token(log: Log) -> None:
    assert send(log, ask(log)) == 0
    end(log)
    assert send(log, NO_TOKEN) == 0


def test_where_none_is_demanded_no_token_is_needed(log: Log) -> None:
    assert send(log, None) == 0


def test_questions_are_forgotten_with_silent_producers(log: Log) -> None:
    ask(log)
    state = log.producer_state
    state.remove_expired(WallMs(NOW + DAY_MS - 1))
    assert len(state.verifications) == 1
    state.remove_expired(WallMs(NOW + DAY_MS))
    assert not len(state.verifications)


def test_a_topics_largest_batch_does_not_hold_for_markers() -> None:
    log = open_store(simulated(), TestClock(), LogConfig(max_message_bytes=70)).create(PARTITION)
    end(log)
    assert log.log_end_offset == 1
