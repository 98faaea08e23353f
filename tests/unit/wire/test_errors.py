"""The error table's rules."""

import pytest

from wire.errors import ApiError, Error


def test_codes_are_found() -> None:
    assert Error.from_code(6) is Error.NOT_LEADER_OR_FOLLOWER
    assert Error.from_code(0) is Error.NONE
    assert Error.from_code(-1) is Error.UNKNOWN_SERVER_ERROR
    assert Error.from_code(12345) is Error.UNKNOWN_SERVER_ERROR


def test_codes_have_no_gaps() -> None:
    assert sorted(Error) == list(range(-1, 128))


@pytest.mark.parametrize("error", list(Error))
def test_fresh_metadata_is_for_trying_again(error: Error) -> None:
    assert error.retriable or not error.refresh_metadata
    assert bool(error.text) == (error is not Error.NONE)


def test_an_api_error_says_what_and_why() -> None:
    assert str(ApiError(Error.NOT_CONTROLLER)) == f"NOT_CONTROLLER: {Error.NOT_CONTROLLER.text}"
    failure = ApiError(Error.INVALID_CONFIG, "no such key")
    assert (failure.error, failure.message) == (Error.INVALID_CONFIG, "no such key")
    assert str(failure) == "INVALID_CONFIG: no such key"
