"""A cluster of three brokers, its web page, and a browser that looks at it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from ottla.testing import Cluster
from scripts.web_page.person import Person

TOPIC, GROUP = "orders", "billing"
RECORDS = 300


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers with a topic of records, and a group that has read a part of them."""
    overrides = {
        "auto.leader.rebalance.enable": "false",
        # Two replicas of everything, so that a broker can be emptied.
        "offsets.topic.replication.factor": "2",
        "offsets.topic.num.partitions": "3",
    }
    with Cluster.up(tmp_path_factory.mktemp("web") / "data", overrides=overrides) as running:
        running.create_topic(TOPIC, partitions=6, replicas=2)
        producer = Producer({"bootstrap.servers": running.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce(
                TOPIC, b'{"number": %d, "customer": {"id": %d}}' % (number, number % 7), key=b"%d" % number,
                partition=number % 6,
            )  # fmt: skip
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": running.bootstrap_servers, "group.id": GROUP})
        consumer.commit(offsets=[Place(TOPIC, number, 20) for number in range(6)], asynchronous=False)
        consumer.close()
        yield running


@pytest.fixture(scope="package")
def page(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The address of a page that allows changes, and its password."""
    command = [
        sys.executable,
        "-m",
        "ottla",
        "web",
        "--data",
        str(cluster.data),
        "--port",
        "0",
        "--allow-changes",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("web page: ").strip().rstrip("/")
        password = process.stdout.readline().removeprefix("password: ").strip()
        assert address.startswith("http://127.0.0.1:"), address
        yield address, password
        process.terminate()
        assert process.wait(30) == 0


@pytest.fixture(scope="package")
def browser(page: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """A browser whose user has logged in."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        person = Person(driver, page[0])
        person.log_in(page[1])
        yield person
    finally:
        driver.quit()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder for pictures: OTTLA_PICTURES, whose files stay, or a temporary one."""
    chosen = os.environ.get("OTTLA_PICTURES")
    return Path(chosen) if chosen else tmp_path
