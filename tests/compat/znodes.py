"""Waiting for znodes with watches: ZooKeeper is the one view that brokers of every kind share."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

WAIT_TIMEOUT_S = 60.0


class Znodes:
    """A client of the cluster's ZooKeeper. A context manager."""

    def __init__(self, hosts: str) -> None:
        self._client = KazooClient(hosts)
        self._changed = threading.Event()

    def __enter__(self) -> "Znodes":
        self._client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()

    def make(self, path: str) -> None:
        """Create a node, if it is missing, before any broker starts."""
        self._client.ensure_path(path)

    def json(self, path: str) -> Any:
        """Return the present value of a node, or None; a change of it wakes `wait`."""
        try:
            data, _ = self._client.get(path, watch=self._look_again)
        except NoNodeError:
            self._client.exists(path, watch=self._look_again)
            return None
        return json.loads(data) if data else {}

    def children(self, path: str) -> set[str]:
        """Return the names of a node's children; a change of them wakes `wait`."""
        return set(self._client.get_children(path, watch=self._look_again))

    def wait(self, condition: Callable[[], object], saying: Callable[[], object] = lambda: "") -> None:
        """Wait until a condition holds, which has to read its nodes through this object."""
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while True:
            self._changed.clear()
            if condition():
                return
            left = deadline - time.monotonic()
            if left <= 0 or not self._changed.wait(min(left, 1.0)):
                assert left > 0, saying()

    def controller(self) -> int:
        """Return the id of the controller, -1 while there is none."""
        found = self.json("/controller")
        return -1 if found is None else int(found["brokerid"])

    def wait_brokers(self, ids: Iterable[int]) -> None:
        """Wait until exactly these brokers are registered."""
        wanted = {str(each) for each in ids}
        self.wait(lambda: self.children("/brokers/ids") == wanted, lambda: self.children("/brokers/ids"))

    def partition_state(self, topic: str, partition: int) -> dict[str, Any]:
        """Return the partition's state as written; without a node, leader -1 and an empty ISR."""
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        return self.json(path) or {"leader": -1, "isr": []}

    def _look_again(self, _event: object) -> None:
        self._changed.set()
