"""The order of answers and back-pressure, over a transport that is a list."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from cluster.network.byte_budget import ByteBudget
from cluster.network.connection import SLOT_OVERHEAD, Connection
from cluster.network.response_slot import Answer, ResponseSlot
from wire.file_range import FileRange


def never(payload: memoryview, slot: ResponseSlot) -> None:
    raise AssertionError("nothing comes in by itself here")


class ListConnection(Connection):
    """Sends into a list; `takes` says whether the peer takes it at once."""

    def __init__(self, budget: ByteBudget | None = None, in_flight_bytes_max: int = 1 << 20) -> None:
        super().__init__("10.0.0.1", 4711, "A", never, budget=budget, in_flight_bytes_max=in_flight_bytes_max)
        self.sent: list[Answer] = []
        self.takes = True
        self.went = 0
        self.rooms = 0

    async def run(self) -> None:
        await trio.sleep_forever()

    @property
    def sent_bytes(self) -> int:
        return 0

    @property
    def is_inside_frame(self) -> bool:
        return False

    @property
    def is_sending(self) -> bool:
        return False

    @property
    def peer_has_gone(self) -> bool:
        return False

    def _transmit(self, answer: Answer) -> bool:
        self.sent.append(answer)
        return self.takes

    def _disconnect(self) -> None:
        self.went += 1

    def _limit_frames(self, size_max: int) -> None:
        self.frame_size_max = size_max

    def _room_again(self) -> None:
        self.rooms += 1

    def drained(self) -> None:
        self._all_transmitted()


def flat(connection: ListConnection) -> list[object]:
    parts: list[object] = []
    for answer in connection.sent:
        parts.extend(answer if isinstance(answer, list) else [answer])
    return parts


def test_answers_leave_in_the_order_of_the_requests() -> None:
    connection = ListConnection()
    first, second, third = (connection.admit(10) for _ in range(3))
    third.complete(b"3")
    second.complete(b"2")
    assert connection.sent == []
    assert connection.pending_count == 3
    first.complete(b"1")
    assert flat(connection) == [b"1", b"2", b"3"]
    assert len(connection.sent) == 1, "what is ready together leaves together"
    assert connection.is_idle
    assert connection.in_flight_bytes == 0


@given(st.permutations(range(8)), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
def test_any_order_of_completion_gives_one_order_of_answers(
    order: list[int], skipped: set[int], blocked: set[int]
) -> None:
    connection = ListConnection()
    slots = [connection.admit(1) for _ in range(8)]
    for number in order:
        connection.takes = number not in blocked
        if number in skipped:
            slots[number].skip()
        else:
            slots[number].complete([b"%d" % number, FileRange(None, number, 1)])  # type: ignore[arg-type]
    numbers = [part for part in flat(connection) if isinstance(part, bytes)]
    assert numbers == [b"%d" % number for number in range(8) if number not in skipped]
    connection.drained()
    assert connection.is_idle
    assert connection.in_flight_bytes == 0


def test_corked_answers_leave_in_one_go() -> None:
    connection = ListConnection()
    connection.corked = True
    for number in range(3):
        connection.admit(1).complete(b"%d" % number)
    assert connection.sent == []
    connection.corked = False
    connection.release()
    assert connection.sent == [[b"0", b"1", b"2"]]


def test_a_request_is_answered_once() -> None:
    slot = ListConnection().admit(1)
    slot.complete(b"x")
    for again in (slot.skip, slot.close, lambda: slot.complete(b"y")):
        with pytest.raises(RuntimeError):
            again()


def test_a_closing_slot_lets_earlier_answers_out_and_later_ones_not() -> None:
    connection = ListConnection()
    first, second, third = (connection.admit(1) for _ in range(3))
    third.complete(b"3")
    second.close()
    assert not connection.closed
    assert connection.reads_no_more
    first.complete(b"1")
    assert flat(connection) == [b"1"]
    assert connection.closed
    assert connection.went == 1


def test_a_closing_slot_waits_for_what_the_peer_has_not_taken() -> None:
    connection = ListConnection()
    connection.takes = False
    connection.admit(1).complete(b"1")
    connection.admit(1).close()
    assert not connection.closed
    connection.drained()
    assert connection.closed


def test_answers_to_a_connection_that_has_gone_go_nowhere() -> None:
    budget = ByteBudget(1000)
    connection = ListConnection(budget)
    slots = [connection.admit(100) for _ in range(2)]
    outcomes: list[str] = []
    connection.call_on_close(lambda: outcomes.append("registered"))
    connection.close()
    connection.close()
    connection.call_on_close(lambda: outcomes.append("late"))
    slots[1].complete(b"x")
    slots[0].close()
    assert connection.sent == []
    assert connection.went == 1
    assert budget.used == 0
    assert outcomes == ["registered", "late"]


def test_finish_waits_for_the_answers_under_way() -> None:
    connection = ListConnection()
    slot = connection.admit(1)
    connection.finish()
    assert not connection.closed
    slot.complete(b"x")
    assert connection.closed
    assert connection.sent == [b"x"]
    idle = ListConnection()
    idle.finish()
    assert idle.closed


def admit_all(connection: ListConnection, size: int) -> list[ResponseSlot]:
    slots = []
    while connection.has_room():
        slots.append(connection.admit(size))
    connection.wait_for_room()
    return slots


def test_a_connection_at_its_bound_begins_nothing_until_there_is_room() -> None:
    connection = ListConnection(in_flight_bytes_max=10_000)
    slots = admit_all(connection, 4000)
    assert len(slots) == 3, "the bound may be passed by one request"
    assert connection.rooms == 0
    slots[0].complete(b"x")
    assert connection.rooms == 1
    assert connection.has_room()


def test_tiny_requests_are_bounded_too() -> None:
    connection = ListConnection(in_flight_bytes_max=10 * SLOT_OVERHEAD)
    assert len(admit_all(connection, 0)) == 10


def test_answers_that_the_peer_does_not_take_count() -> None:
    connection = ListConnection(in_flight_bytes_max=10_000)
    connection.takes = False
    connection.admit(10).complete(bytes(20_000))
    assert not connection.has_room()
    connection.wait_for_room()
    connection.drained()
    assert connection.rooms == 1
    assert connection.in_flight_bytes == 0


def test_at_the_brokers_bound_each_connection_still_has_one_request() -> None:
    budget = ByteBudget(1000)
    busy, other = ListConnection(budget), ListConnection(budget)
    slots = admit_all(busy, 1000)
    assert len(slots) == 1
    assert other.has_room(), "a follower's fetch must come through, or nothing is ever acknowledged"
    fetch = other.admit(100)
    assert not other.has_room()
    other.wait_for_room()
    slots[0].complete(b"x")
    assert other.rooms == 1, "somebody else's bytes made the room"
    assert busy.rooms == 1
    fetch.complete(b"y")
    assert budget.used == 0


def test_a_connection_that_goes_makes_room_for_others() -> None:
    budget = ByteBudget(1000)
    busy, other = ListConnection(budget), ListConnection(budget)
    admit_all(busy, 1000)
    other.admit(1)
    other.wait_for_room()
    busy.close()
    assert other.rooms == 1


def test_it_shows_who_it_is() -> None:
    connection = ListConnection()
    connection.admit(1)
    assert repr(connection) == "<ListConnection 10.0.0.1:4711 on A, 1 in flight>"


def test_answers_that_wait_for_earlier_ones_take_room() -> None:
    budget = ByteBudget(1 << 20)
    connection = ListConnection(budget, in_flight_bytes_max=10_000)
    first, second, third = (connection.admit(10) for _ in range(3))
    assert connection.has_room()
    second.complete(b"x" * 5_000)
    third.complete([b"y" * 4_000, memoryview(b"z" * 1_000)])
    assert connection.in_flight_bytes == budget.used == 3 * (10 + SLOT_OVERHEAD) + 10_000
    assert not connection.has_room()
    connection.takes = False
    first.complete(b"w" * 100)
    assert connection.in_flight_bytes == 3 * (10 + SLOT_OVERHEAD) + 10_100
    connection.drained()
    assert connection.in_flight_bytes == budget.used == 0


def test_corked_answers_take_room() -> None:
    sizes: list[int] = []

    def answer(payload: memoryview, slot: ResponseSlot) -> None:
        sizes.append(connection.in_flight_bytes)
        slot.complete(b"x" * 40_000)

    connection = ListConnection(in_flight_bytes_max=100_000)
    connection.dispatch_by(answer)
    frames = iter([memoryview(b"ask")] * 20)
    assert connection._begin_requests(lambda: next(frames, None))
    assert max(sizes) < 140_000
    assert len(flat(connection)) == 20
    assert len(connection.sent) < 20
    assert connection.in_flight_bytes == 0
