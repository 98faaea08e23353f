"""A Java program that tests talk to line by line: one virtual machine for many tests."""

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path


class JavaProgram:
    """A program of the folder java, run from its source.

    Args:
        java: The command that runs Java with Apache Kafka on its class path.
        source: The file's name.
        arguments: The program's arguments.
        log: Where its standard error goes.
    """

    def __init__(self, java: Sequence[str], source: str, *arguments: str, log: Path) -> None:
        self._log = log.open("w")
        self._process = subprocess.Popen(
            [*java, str(Path(__file__).parent / "java" / source), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def answers(self, *lines: str) -> Iterator[str]:
        """Send lines, and yield the output line by line; the caller knows which line is the last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n".join(lines) + "\n")
        self._process.stdin.flush()
        # Not the file itself: a caller that stops reading would close it with the generator.
        yield from iter(self._process.stdout.readline, "")
        raise AssertionError(f"the Java program ended: see {self._log.name}")

    def close(self) -> None:
        """Let the program finish."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        self._log.close()
