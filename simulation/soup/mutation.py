"""Weakening one rule of the product during a run, to see whether the run's checks notice.

The product knows nothing of it. A mutation names a function, a piece of its text, and the text that replaces it; the
function is recompiled and gets the new code, wherever it was imported to, until the mutation is undone. A piece that is
not in the function, or is there twice, is an error: the product has changed, and the mutation has to follow it.
"""

import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any, NamedTuple


class MutationError(Exception):
    """A mutation does not find its place; the text names it."""


class Edit(NamedTuple):
    """A replacement for a piece of one function's text.

    Attributes:
        function: The function, or the method as its class has it.
        before: The piece; it must be there exactly once.
        after: What takes its place.
    """

    function: Callable[..., Any]
    before: str
    after: str


class Mutation(NamedTuple):
    """One weakened rule.

    Attributes:
        name: Its name on the command line.
        weakens: What the product no longer does, for people.
        edits: The edits that weaken it.
    """

    name: str
    weakens: str
    edits: tuple[Edit, ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Run the product in this process with the rule weakened.

        Raises:
            MutationError: an edit does not find its place; nothing is changed.
        """
        edits: dict[FunctionType, list[Edit]] = {}
        for edit in self.edits:
            edits.setdefault(_function(edit), []).append(edit)
        codes = {function: mutated_code(function, some) for function, some in edits.items()}
        with ExitStack() as stack:
            for function, code in codes.items():
                stack.callback(setattr, function, "__code__", function.__code__)
                function.__code__ = code
            yield


def mutated_code(function: FunctionType, edits: Sequence[Edit]) -> CodeType:
    """Return the code of a function after edits, one after the other.

    Raises:
        MutationError: a piece is not in the function exactly once, or its replacement is not valid code, or changes
            nothing.
    """
    name = function.__qualname__
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError as error:
        raise MutationError(f"the text of {name} cannot be read: {error}") from error
    text = source
    for _, before, after in edits:
        count = text.count(before)
        if count != 1:
            raise MutationError(f"{name} has {before!r} {count} times, not once")
        text = text.replace(before, after)
    try:
        code = _compiled(function, text)
    except SyntaxError as error:
        raise MutationError(f"{name} is no code any more: {error}") from error
    if code.co_freevars != function.__code__.co_freevars:
        raise MutationError(f"{name} needs {function.__code__.co_freevars} from around it")
    if code == _compiled(function, source):
        raise MutationError(f"{name} does the same as before")
    return code


def _compiled(function: FunctionType, text: str) -> CodeType:
    """Compile a function's text at its line in the file, so that traces name the right lines."""
    module = compile(
        "\n" * (function.__code__.co_firstlineno - 1) + text,
        function.__code__.co_filename,
        "exec",
        flags=__future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    return next(
        each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == function.__name__
    )


def _function(edit: Edit) -> FunctionType:
    function = inspect.unwrap(edit.function)
    if not isinstance(function, FunctionType):
        raise MutationError(f"{edit.function!r} is no function of Python's")
    return function
