"""Every test that docs/client-checks.md names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_each_promise_names_tests_that_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "client-checks.md").read_text()))
    there = set()
    for room in ("unit", "compat", "integration"):
        for path in (ROOT / "tests" / room / "client").glob("test_*.py"):
            there |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    assert len(named) > 50
    assert named <= there
