"""The fixtures, in a project that has never seen ours: its tests are run by a pytest of their own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import socket

import pytest
from confluent_kafka import Producer


def send(bootstrap, topic):
    failures = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _: failures.append(error))
    producer.flush(30)
    return failures


def test_a_topic_is_there(ottla_bootstrap, ottla_topic):
    assert send(ottla_bootstrap, ottla_topic) == [None]


def test_a_broker_dies(ottla_cluster, ottla_topic):
    leader = ottla_cluster.view().leader(ottla_topic, 0)
    ottla_cluster.kill(leader)
    assert send(ottla_cluster.bootstrap_servers, ottla_topic) == [None]


def test_it_lives_again(ottla_cluster):
    assert sorted(ottla_cluster.view().descriptions) == [0, 1, 2]


@pytest.mark.parametrize("ottla_topic", [{"partitions": 4}], indirect=True)
def test_a_wide_topic(ottla_cluster, ottla_topic):
    assert ottla_cluster.view().leader(ottla_topic, 3) != -1
    ottla_cluster.create_topic("left-behind")


def test_nothing_is_left_behind(ottla_clean_cluster):
    seen = ottla_clean_cluster.view().descriptions.values()
    assert {p["topic"] for each in seen for p in each["partitions"]} <= {"__consumer_offsets", "__transaction_state"}

"""


def run_pytest(project: Path, *options: str) -> str:
    """Run a project's tests with the plugin, and return what was printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    if "ottla" not in _installed_plugins():
        command += ["-p", "ottla.testing.pytest_plugin"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1, 4), done.stderr
    return done.stdout + done.stderr


def _installed_plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {each.name for each in entry_points(group="pytest11")}


@pytest.mark.parametrize("world", ["in-process", "processes"])
def test_a_project_tests_with_a_cluster(tmp_path: Path, world: str) -> None:
    (tmp_path / "test_shop.py").write_text(SUITE)
    printed = run_pytest(tmp_path, f"--ottla-cluster={world}")
    assert "5 passed" in printed, printed


def test_settings_come_from_the_projects_configuration(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nottla_brokers = 1\nottla_settings =\n    num.partitions=7\n    auto.create.topics.enable=true\n"
    )
    (tmp_path / "test_settings.py").write_text(
        "from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType\n\n\n"
        "def test_it(ottla_bootstrap):\n"
        "    asked = ConfigResource(ResourceType.BROKER, '0')\n"
        "    admin = AdminClient({'bootstrap.servers': ottla_bootstrap})\n"
        "    assert len(admin.list_topics(timeout=10).brokers) == 1\n"
        "    assert admin.describe_configs([asked])[asked].result(10)['num.partitions'].value == '7'\n"
    )
    printed = run_pytest(tmp_path)
    assert "1 passed" in printed, printed


def test_a_wrong_setting_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nottla_cluster = somewhere\n")
    (tmp_path / "test_it.py").write_text("def test_it(ottla_bootstrap):\n    pass\n")
    printed = run_pytest(tmp_path)
    assert re.search(r"ottla_cluster is 'somewhere'; it can be in-process or processes", printed), printed


def test_the_programs_of_the_documentation_work(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
    # What follows runs on simulated time: tests/simulation/test_testing_guide.py.
    real_time, _ = text.split("## In simulated time")
    suite, program = re.findall(r"```python\n(.*?)```", real_time, re.DOTALL)
    (tmp_path / "test_documentation.py").write_text(suite)
    assert "1 passed" in run_pytest(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    assert re.fullmatch(r"127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+){2}\n", done.stdout)
