"""The service classes of kafka-python's integration tests, for a broker that the tests did not start."""


class ExternalService:
    """A service which runs elsewhere."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Do nothing: it runs."""

    def close(self) -> None:
        """Do nothing: it goes on."""

    def stop(self) -> None:
        """Do nothing: it goes on."""


class SpawnedService:
    """The tests' own broker, which needs Apache Kafka's directory and so is not available here."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("environment: this case starts a broker of its own")
