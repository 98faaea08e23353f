"""The cluster of deploy/docker-compose.yml on a real Docker engine, for a test to use and to harm."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import docker
import pytest
from docker.errors import DockerException, ImageNotFound
from docker.types import EndpointConfig
from testcontainers.compose import DockerCompose

from ottla.testing.ports import free_port_block
from timing.clock import SystemClock
from timing.polling import poll_until

ROOT = Path(__file__).parents[3]
BROKERS = (1, 2, 3)
SECURED = tuple(f"secured-{broker}" for broker in BROKERS)
WAIT_TIMEOUT_S = 90.0
_LOCAL_IMAGES = {
    "PYTHON_IMAGE": "ottla-local/python",
    "ZOOKEEPER_IMAGE": "ottla-local/zookeeper",
    "PIP_NO_INDEX": "1",
}
_LOOK_AGAIN_S = 0.1


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> None:
    """Poll until a condition holds, and fail with the name of what did not happen."""
    found = poll_until(condition, SystemClock(), timeout_s=timeout_s, interval_s=_LOOK_AGAIN_S)
    assert found, f"not within {timeout_s:g} s: {what}"


class ComposedCluster:
    """ZooKeeper and three brokers in containers, from ``docker compose up`` to ``down``.

    Attributes:
        bootstrap_servers: The addresses for a client on the host.
        secured_servers: The same for the brokers of the profile `secured`.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        try:
            self._docker = docker.from_env()
            self._docker.ping()
        except DockerException as error:
            pytest.fail(
                f"no Docker engine answers ({error}); tests/integration/docker/start-engine starts one, as root",
                pytrace=False,
            )
        first = free_port_block(2 * len(BROKERS))
        self._ports = {broker: first + place for place, broker in enumerate(BROKERS)}
        secured = {broker: first + len(BROKERS) + place for place, broker in enumerate(BROKERS)}
        self.bootstrap_servers = ",".join(f"127.0.0.1:{port}" for port in self._ports.values())
        self._project = f"ottla-test-{first}"
        self._project_label = f"com.docker.compose.project={self._project}"
        environment = {"COMPOSE_PROJECT_NAME": self._project, "OTTLA_IMAGE": f"{self._project}:test"}
        environment |= {f"OTTLA_PORT_{broker}": str(port) for broker, port in self._ports.items()}
        environment |= {f"OTTLA_SECURED_PORT_{broker}": str(port) for broker, port in secured.items()}
        self.secured_servers = ",".join(f"127.0.0.1:{port}" for port in secured.values())
        if self._has_image(_LOCAL_IMAGES["ZOOKEEPER_IMAGE"]):
            environment |= _LOCAL_IMAGES
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        self._compose = DockerCompose(
            ROOT / "deploy",
            compose_file_name=str(ROOT / "deploy" / "docker-compose.yml"),
            build=True,
            # Compose 1 cannot wait for health, so we check it ourselves.
            wait=False,
            docker_command_path=_compose_program(),
        )

    def __enter__(self) -> Self:
        try:
            self._compose.start()
        except subprocess.CalledProcessError as error:
            self._in_profile("down", "--volumes")
            output = (error.stdout or b"") + (error.stderr or b"")
            pytest.fail(f"docker compose up failed:\n{output.decode()[-4000:]}", pytrace=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in_profile("down", "--volumes")
        self._docker.images.remove(f"{self._project}:test", force=True)
        self._docker.close()

    @contextmanager
    def logs_on_failure(self) -> Iterator[None]:
        """Print the last lines of all containers if the block fails."""
        try:
            yield
        except BaseException:
            for container in self._docker.containers.list(all=True, filters={"label": [self._project_label]}):
                print(f"--- the last of {container.name}:")
                print(container.logs(tail=25).decode())
            raise

    def start_secured(self, folder: Path) -> Path:
        """Start the brokers of the profile `secured`, and wait for their health; copy their clients' files to a folder.

        Returns:
            The folder that programs have to run from.
        """
        self._in_profile("up", "--detach", *SECURED)
        self._wait_healthy(SECURED)
        folder.mkdir()
        self._extract(self._container("security"), "/security", folder)
        return folder

    def kill_secured(self, broker: int) -> None:
        """``docker kill`` one of the secured brokers."""
        self._container(f"secured-{broker}").kill()

    def wait_healthy(self) -> None:
        """Wait until ZooKeeper and every broker without security report that they are healthy."""
        self._wait_healthy(("zookeeper", *(f"broker-{b}" for b in BROKERS)))

    def _wait_healthy(self, services: Sequence[str]) -> None:
        for service in services:
            wait_until(lambda service=service: self._health(service) == "healthy", f"{service} healthy")

    def kill(self, *brokers: int) -> None:
        """``docker kill`` them all at the same time."""
        containers = [self._broker(broker) for broker in brokers]
        with ThreadPoolExecutor(len(containers)) as threads:
            for killed in [threads.submit(container.kill) for container in containers]:
                killed.result()

    def start(self, broker: int) -> None:
        """``docker start``."""
        self._broker(broker).start()

    def stop(self, broker: int) -> int:
        """``docker stop``, with the grace period of the compose file; return the exit code."""
        container = self._broker(broker)
        container.stop(timeout=60)
        return int(container.wait()["StatusCode"])

    def crash_inside(self, broker: int) -> None:
        """Kill the broker's process inside its container; the guardian survives and notices."""
        script = (
            "import os, pathlib, signal\n"
            "children = pathlib.Path('/proc/1/task/1/children').read_text().split()\n"
            "[os.kill(int(child), signal.SIGKILL) for child in children]"
        )
        code, output = self._broker(broker).exec_run(["python", "-c", script])
        assert code == 0, output.decode()

    def restarts(self, broker: int) -> int:
        """How often the restart policy has started a broker again."""
        return int(self._broker(broker).attrs["RestartCount"])

    def size_bytes(self) -> int:
        """The size of the broker's image."""
        return int(self._docker.images.get(f"{self._project}:test").attrs["Size"])

    def log(self, broker: int) -> str:
        """Everything that a broker printed."""
        return str(self._broker(broker).logs().decode())

    def ottla(self, command: str, *arguments: str | Path) -> str:
        """Run a command on the host, as in the walk-through, and return its output."""
        program = [str(Path(sys.executable).parent / "ottla"), command]
        done = subprocess.run(
            [*program, "--bootstrap-server", self.bootstrap_servers, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{command} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ottla_inside(self, broker: int, *arguments: str) -> str:
        """Run a command in a broker's container, and return its output."""
        code, output = self._broker(broker).exec_run(["ottla", *arguments])
        assert code == 0, output.decode()
        return str(output.decode())

    @contextmanager
    def another_broker(self, broker: int) -> Iterator[None]:
        """Run one more broker from the image, with all its settings in environment variables."""
        name = f"broker-{broker}"
        settings = {
            "KAFKA_BROKER_ID": str(broker),
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_LISTENERS": "INTERNAL://0.0.0.0:9092",
            "KAFKA_ADVERTISED_LISTENERS": f"INTERNAL://{name}:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INTERNAL:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INTERNAL",
            "KAFKA_HEAP_OPTS": "-Xmx1g",
        }
        container = self._docker.containers.run(
            f"{self._project}:test",
            detach=True,
            environment=settings,
            hostname=name,
            name=f"{self._project}-{name}",
            network=f"{self._project}_default",
            networking_config={
                f"{self._project}_default": EndpointConfig(self._docker.api._version, aliases=[name])
            },
        )
        try:

            def is_healthy() -> bool:
                container.reload()
                return bool(container.attrs["State"]["Health"]["Status"] == "healthy")

            wait_until(is_healthy, f"{name} healthy")
            yield
            container.stop(timeout=60)
            assert container.wait()["StatusCode"] == 0, container.logs().decode()
        finally:
            container.remove(force=True, v=True)

    def partitions(self, topic: str) -> dict[int, dict[str, Any]]:
        """Return a topic's partitions by number, from the cluster's present metadata."""
        try:
            described = json.loads(self.ottla("topics", "--describe", "--topic", topic, "--json"))
        except AssertionError:
            return {}
        return {each["partition"]: each for topic in described for each in topic["partitions"]}

    def wait_partitions(
        self, topic: str, condition: Callable[[dict[int, dict[str, Any]]], bool], what: str
    ) -> None:
        """Wait until a topic's partitions meet a condition."""
        wait_until(lambda: bool(found := self.partitions(topic)) and condition(found), what)

    def copy_logs(self, broker: int, target: Path) -> Path:
        """Copy a broker's volume out of its container, and return the log directory."""
        self._extract(self._broker(broker), "/var/lib/ottla/.", target)
        return target

    def _extract(self, container: Any, path: str, target: Path) -> None:
        chunks, _ = container.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            archive.extractall(target)  # a container of our own; the Python 3.11.2 of Debian has no filters

    def _in_profile(self, *arguments: str) -> None:
        """Run ``docker compose --profile secured``, without which ``down`` does not see all containers."""
        command = [*self._compose.docker_compose_command(), "--profile", "secured", *arguments]
        done = subprocess.run(command, cwd=ROOT / "deploy", capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-4000:]

    def _broker(self, broker: int) -> Any:
        return self._container(f"broker-{broker}")

    def _container(self, service: str) -> Any:
        labels = [self._project_label, f"com.docker.compose.service={service}"]
        (found,) = self._docker.containers.list(all=True, filters={"label": labels})
        return found

    def _health(self, service: str) -> str:
        return str(self._container(service).attrs["State"].get("Health", {}).get("Status"))

    def _has_image(self, name: str) -> bool:
        try:
            self._docker.images.get(name)
        except ImageNotFound:
            return False
        return True


def _compose_program() -> str:
    """Return the program that runs as ``PROGRAM compose ...``."""
    found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if found.returncode == 0:
        return "docker"
    assert shutil.which("docker-compose"), "Docker Compose is not installed"
    return str(Path(__file__).parent / "compose-v1")
