"""Mutations: each finds its place in the product, makes its change, and is undone; unknown ones are refused."""

import inspect
import re

import pytest

from cluster.replication.leader.fetch_answers import readable_end
from cluster.replication.leader.fetch_session import Isolation
from simulation.soup.mutation import Edit, Mutation, MutationError
from simulation.soup.mutations import MUTATIONS


class _Log:
    high_watermark, log_end_offset, last_stable_offset = 5, 9, 3


def _double(number: int) -> int:
    return number * 2


def _triple(number: int) -> int:
    return number * 3


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutation_finds_its_place_and_is_taken_back(mutation: Mutation) -> None:
    functions = [inspect.unwrap(edit.function) for edit in mutation.edits]
    before = [function.__code__ for function in functions]
    with mutation.applied():
        assert all(f.__code__ is not code for f, code in zip(functions, before, strict=True))
    assert [function.__code__ for function in functions] == before


def test_there_are_enough() -> None:
    assert len(MUTATIONS) >= 25
    assert len({each.weakens for each in MUTATIONS.values()}) == len(MUTATIONS)


def test_the_product_does_otherwise_while_a_mutation_lasts() -> None:
    log = _Log()
    with MUTATIONS["read-above-high-watermark"].applied():
        assert readable_end(log, Isolation.HIGH_WATERMARK) == 9
    assert readable_end(log, Isolation.HIGH_WATERMARK) == 5


def test_edits_of_one_function_add_up() -> None:
    edits = (Edit(_double, "number * 2", "number * 3"), Edit(_double, "return number", "return 1 + number"))
    with Mutation("m", "doubling", edits).applied():
        assert _double(2) == 7
    assert _double(2) == 4


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit(_double, "number * 4", "number"), "has 'number * 4' 0 times, not once"),
        (Edit(_double, "number", "name"), "times, not once"),
        (Edit(_double, "number * 2", "number *"), "is no code any more"),
        (Edit(_double, "number * 2", "number * 2"), "does the same"),
        (Edit(len, "len", "sum"), "is no function of Python's"),
    ],
)
def test_an_edit_without_a_place_is_refused_and_nothing_is_changed(edit: Edit, why: str) -> None:
    good = Edit(_triple, "number * 3", "number * 4")
    with (
        pytest.raises(MutationError, match=re.escape(why)),
        Mutation("m", "doubling", (good, edit)).applied(),
    ):
        pass
    assert (_double(2), _triple(2)) == (4, 6)
