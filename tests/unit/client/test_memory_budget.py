"""A budget whose waiters are served in the order they came."""

from ottla.client.memory_budget import MemoryBudget


def test_waiters_are_served_in_order_and_nobody_passes_them() -> None:
    budget = MemoryBudget(100)
    assert budget.take_nowait(100)
    served: list[int] = []
    for number in range(1000):
        budget.take_later(10, lambda number=number: served.append(number))
    assert not budget.take_nowait(0), "one who comes later waits behind, however little it is"
    for freed in range(1000):
        budget.release(10)
        assert served == list(range(freed + 1))
    assert budget.available == 0


def test_a_large_piece_is_not_passed_by_small_ones() -> None:
    budget = MemoryBudget(100)
    assert budget.take_nowait(100)
    served: list[str] = []
    budget.take_later(80, lambda: served.append("large"))
    budget.take_later(1, lambda: served.append("small"))
    budget.release(50)
    assert served == []
    budget.release(50)
    assert served == ["large", "small"]
    assert budget.available == budget.free == 19


def test_a_cancelled_waiter_loses_nothing() -> None:
    budget = MemoryBudget(100)
    assert budget.take_nowait(60)
    served: list[str] = []
    large = budget.take_later(80, lambda: served.append("large"))
    budget.take_later(30, lambda: served.append("small"))
    budget.cancel(large)
    assert served == ["small"]
    budget.cancel(large)
    budget.release(60)
    assert budget.available == budget.free == 70
