"""What the tests of replication share."""

from collections.abc import Callable

import pytest

from tests.unit.replication.in_memory import FakeBroker


@pytest.fixture
def make_broker() -> Callable[..., FakeBroker]:
    """Make more brokers than one, or one with settings."""
    return FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    """Broker 1, with 2 and 3 live."""
    return FakeBroker()
