"""docs/testing.md, the part on simulated time: its programs run as they stand there, and its test finds the bug."""

import re
from pathlib import Path
from types import ModuleType

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "testing.md"
SECTION = GUIDE.read_text().split("## In simulated time\n")[1].split("\n## ")[0]
BLOCKS = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture):
    with caplog.at_level("CRITICAL"):
        yield


@pytest.fixture
def billing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("billing")
    exec(BLOCKS[0], vars(module))
    monkeypatch.setitem(__import__("sys").modules, "billing", module)
    return module


def test_every_block_is_run_here() -> None:
    assert len(BLOCKS) == 4


@pytest.mark.usefixtures("billing")
def test_the_bug_is_found() -> None:
    found: dict[str, object] = {}
    exec(BLOCKS[1], found)
    with pytest.raises(AssertionError, match="were never billed"):
        found["test_every_order_is_billed"]()


def test_the_mended_consumer_passes(billing: ModuleType) -> None:
    exec(BLOCKS[2], vars(billing))
    found: dict[str, object] = {}
    exec(BLOCKS[1], found)
    found["test_every_order_is_billed"]()


def test_faults_by_name() -> None:
    found: dict[str, object] = {}
    exec(BLOCKS[3], found)
    found["test_a_dead_leader_is_replaced"]()
