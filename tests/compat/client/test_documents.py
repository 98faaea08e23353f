"""The tour of docs/client.md runs as it stands, but for the addresses, and passes the type checker."""

import re
import subprocess
import sys
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.client.played_registry import registry

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def tour(bootstrap_servers: str, registry_url: str) -> str:
    """Return the blocks of the tour as one program for a cluster and a schema registry."""
    text = (ROOT / "docs" / "client.md").read_text()
    blocks = _BLOCK.findall(text)
    assert len(blocks) >= 6
    return (
        "\n".join(blocks)
        .replace("127.0.0.1:9092", bootstrap_servers)
        .replace("http://127.0.0.1:8081", registry_url)
    )


def test_the_tour_runs(brokers, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    for future in admin.create_topics(
        [NewTopic(name, 3, 1) for name in ("orders", "bills", "trees")]
    ).values():
        future.result(30)
    program = tmp_path / "tour.py"
    with registry() as played:
        program.write_text(tour(brokers.bootstrap_servers, played.url))
        done = subprocess.run(
            [sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "connected to" in done.stdout
    assert re.search(r"\d+ apples", done.stdout)
    assert "trees: ['apple']" in done.stdout


def test_the_tour_passes_the_type_checker(tmp_path: Path) -> None:
    program = tmp_path / "tour.py"
    program.write_text(tour("127.0.0.1:9092", "http://127.0.0.1:8081"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    problems = [line for line in done.stdout.splitlines() if "tour.py" in line]
    assert not problems, "\n".join(problems)
