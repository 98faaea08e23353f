"""Submitting a job to Spark, following it, and stopping it.

spark-submit runs in a session of its own, so that Ctrl-C reaches only us: we ask the job to stop, and it stops at a
point where nothing is lost. Spark's output goes to a file, which errors name.
"""

import hashlib
import importlib.util
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from host.java_runtime import VECTOR_MODULE, JavaMissingError, JavaRuntime, find_java
from host.user_cache import user_cache
from pipeline.failure import JobError, one_line
from pipeline.jars import require_jars
from pipeline.options import about
from pipeline.package_zip import package_zip
from pipeline.report import CHANNEL_VARIABLE
from pipeline.report_reader import ReportReader
from pipeline.versions import Bundle

STOP_TIMEOUT_S: Final = 60.0
MASTER_TIMEOUT_S: Final = 5.0
QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""For jobs that last a minute: the driver starts sooner, but never reaches full speed."""
_LOOK_AGAIN_S: Final = 0.2

Show = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where and how Spark runs."""

    master: str = field(
        default="local[*]", metadata=about("Where Spark runs: local[N], spark://HOST:PORT, yarn, k8s://...")
    )
    jars: str | None = field(
        default=None,
        metadata=about("A folder with the connector's jars; nothing is fetched then.", metavar="DIR"),
    )
    conf: Mapping[str, str] = field(default_factory=dict, metadata=about("A setting of Spark; repeatable."))
    driver_memory: str = field(default="1g", metadata=about("The driver's heap."))
    spark_log: str | None = field(
        default=None, metadata=about("Where what Spark prints goes; kept after a failure by default.", metavar="FILE")
    )  # fmt: skip


def spark_home() -> Path:
    """Return PySpark's own folder, without importing it.

    Raises:
        JobError: PySpark is not installed.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise JobError("pyspark is not installed: pip install 'ottla[pipeline]'")
    return Path(found.origin).parent


def spark_environment(master: str) -> dict[str, str]:
    """Return the environment of spark-submit: this Python for the driver and the workers, and a suitable Java.

    Raises:
        JobError: there is no Java.
    """
    try:
        java = find_java()
    except JavaMissingError as error:
        raise JobError(f"Spark needs Java: {error}") from None
    environment = {
        **os.environ,
        "JAVA_HOME": str(_java_home_for_spark(java)),
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }
    if master.startswith("local"):
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return environment


def _java_home_for_spark(java: JavaRuntime) -> Path:
    """Return a ``JAVA_HOME`` whose program starts with the options that Spark's launcher gives it.

    The launcher always adds the module `VECTOR_MODULE`, and a Java that lacks it does not start. Spark uses it only for
    linear algebra, and can do without: so the option is dropped for such a Java.
    """
    if not java.lacks_vector_module:
        return java.home
    home = user_cache() / f"java-{hashlib.sha256(str(java.home).encode()).hexdigest()[:16]}"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    scratch = program.with_suffix(f".{os.getpid()}")
    scratch.write_text(
        "#!/bin/sh\n"
        'for option; do shift; [ "$option" = --add-modules='
        + VECTOR_MODULE
        + ' ] || set -- "$@" "$option"; done\n'
        f'exec {shlex.quote(java.program)} "$@"\n'
    )
    scratch.chmod(0o755)
    scratch.replace(program)
    return home


def submit_command(
    job: str,
    arguments: Sequence[str],
    options: SparkOptions,
    bundles: Sequence[Bundle],
    environment: Mapping[str, str],
) -> list[str]:
    """Return the spark-submit line of a job; jars that are not there yet are fetched.

    Raises:
        JobError: a jar is missing and cannot be fetched.
    """
    submit = [str(spark_home() / "bin" / "spark-submit")]
    given = None if options.jars is None else Path(options.jars)
    jars = require_jars(bundles, given=given, conf=options.conf, submit=submit, environment=environment)
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": options.driver_memory,
        **({"spark.driver.extraJavaOptions": QUICK_JVM} if job == "demo" else {}),
        **options.conf,
    }
    return [
        *submit,
        *("--master", options.master, "--name", f"ottla-{job}"),
        *(("--jars", ",".join(map(str, jars))) if jars else ()),
        *("--py-files", str(package_zip())),
        *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
        str(Path(__file__).parent / "jobs" / f"{job}.py"),
        *arguments,
    ]


class RunningJob:
    """A submitted job: a context manager that follows it, and on leaving makes sure that it is gone.

    Attributes:
        pid: spark-submit's process, the leader of its own session.
        log: The file of Spark's output.
    """

    def __init__(
        self, job: str, arguments: Sequence[str], options: SparkOptions, bundles: Sequence[Bundle]
    ) -> None:
        environment = spark_environment(options.master)
        command = submit_command(job, arguments, options, bundles, environment)
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-"))
        self.log = Path(options.spark_log) if options.spark_log else self._folder / "spark.log"
        self._keep_log = options.spark_log is not None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel = self._folder / "channel"
        self._listener.bind(str(channel))
        self._listener.listen(1)
        try:
            with self.log.open("wb") as output:
                self._process = subprocess.Popen(
                    command,
                    env={**environment, CHANNEL_VARIABLE: str(channel)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._listener.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise JobError(f"{error.filename}: {error.strerror}") from None
        self.pid = self._process.pid
        self._reader: ReportReader | None = None
        self._stop_asked = False

    def __enter__(self) -> "RunningJob":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()
        self._listener.close()
        if self._reader is not None:
            self._reader.close()
        failed = self._process.returncode not in (0, None)
        if not failed or self._keep_log:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def is_running(self) -> bool:
        """Whether spark-submit is running."""
        return self._process.poll() is None

    def ask_to_stop(self) -> None:
        """Ask the job to stop at a point where nothing is lost; end it if it has not started yet."""
        self._stop_asked = True
        if self._reader is None:
            self._signal(signal.SIGTERM)
        else:
            self._reader.ask_to_stop()

    def kill(self) -> None:
        """End it at once with SIGKILL: JVM, driver and workers of a local master."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def follow(self, show: Show) -> int:
        """Pass every message of the job to ``show`` until it ends, and return its exit code.

        Raises:
            JobError: it ended without a message; the text names the log.
        """
        failed = False

        def shown(kind: str, values: Mapping[str, Any]) -> None:
            nonlocal failed
            failed = failed or kind == "failed"
            show(kind, values)

        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while self._process.poll() is None:
                self._look(selector, shown)
            self._look(selector, shown)
        if self._reader is not None:
            self._reader.drain(shown)
        code = self._process.returncode
        if self._stop_asked:
            return 0 if self._reader is not None and code == 0 else 130
        if code != 0 and not failed:
            raise JobError(f"{killed_by(code) or self._likely_error()} (all that Spark printed: {self.log})")
        return code

    def _look(self, selector: selectors.BaseSelector, show: Show) -> None:
        for key, _events in selector.select(_LOOK_AGAIN_S):
            if key.fileobj is self._listener:
                connection, _address = self._listener.accept()
                self._reader = ReportReader(connection)
                selector.unregister(self._listener)
                selector.register(connection, selectors.EVENT_READ)
            elif self._reader is not None and not self._reader.read(show):
                selector.unregister(key.fileobj)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass  # it ended by itself

    def _likely_error(self) -> str:
        """Return the line of Spark's output that most likely names the cause."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        marked = [
            line
            for line in lines
            if ("Exception" in line or "rror:" in line or "killed" in line.lower()) and " WARN " not in line
        ]
        words = (marked or [line for line in lines if line.strip()] or [""])[0 if marked else -1]
        return one_line(words) or f"spark-submit ended with code {self._process.returncode}"


def killed_by(code: int) -> str | None:
    """Return in words which signal ended a job, by its exit code; None if none did.

    A signal to Java is a negative code; one to the driver's Python reaches us as Java's own code, 128 and the number.
    """
    number = -code if code < 0 else code - 128
    if number not in set(signal.Signals):
        return None
    name = signal.Signals(number).name
    cause = "; the system may have been out of memory" if number == signal.SIGKILL else ""
    who = "Spark's Java" if code < 0 else "the driver"
    return f"{who} was ended by {name}{cause}; start the job again: it goes on at its checkpoint"


def require_master(master: str) -> None:
    """Refuse a master that Spark cannot use, before Spark tries for a minute.

    Raises:
        JobError: Spark does not know its form, or no host of a standalone cluster accepts connections.
    """
    if re.fullmatch(r"local(\[(\*|\d+)(,\s*\d+)?\])?|local-cluster\[.*\]|yarn|k8s://.+", master):
        return
    if not master.startswith("spark://"):
        raise JobError(
            f"--master {master} is no master: it is local[N], spark://HOST:PORT, yarn or k8s://..."
        )
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise JobError(f"--master {master}: {address} is not HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=MASTER_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            failures.append(f"{address}: {error}")
        else:
            return
    raise JobError(f"--master {master} cannot be reached ({'; '.join(failures)}): is its master running?")


def run_submitted(
    job: str, arguments: Sequence[str], options: SparkOptions, bundles: Sequence[Bundle], show: Show
) -> int:
    """Submit a job and follow it to its end. The first Ctrl-C, SIGTERM or SIGHUP asks it to stop, the second ends it.

    Returns:
        Its exit code: 0 also where it stopped by request.

    Raises:
        JobError: it could not be submitted, or ended without a message.
    """
    require_master(options.master)
    show("note", {"text": f"starting Spark on {options.master}"})
    with RunningJob(job, arguments, options, bundles) as running:
        asked = False

        def on_signal(*_: object) -> None:
            nonlocal asked
            if asked:
                running.kill()
                return
            asked = True
            show("note", {"text": "stopping; once more to end it at once"})
            running.ask_to_stop()
            signal.setitimer(signal.ITIMER_REAL, STOP_TIMEOUT_S)

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
        before = {number: signal.signal(number, on_signal) for number in numbers}
        try:
            return running.follow(show)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in before.items():
                signal.signal(number, handler)
