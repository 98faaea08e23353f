"""``python -m tests.compat.foreign``: run other people's test suites against Ottla or Apache Kafka.

python -m tests.compat.foreign run librdkafka [--smoke] [--kafka] [--grow] [CASE ...]
python -m tests.compat.foreign scoreboard
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from ottla.testing import Cluster
from tests.compat.foreign.scoreboard import write_scoreboard
from tests.compat.foreign.verdicts import Expectations, Verdict, read_verdicts

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent
SUITES = sorted(path.parent.name for path in HERE.glob("*/run"))


@click.group()
def main() -> None:
    """Run other people's test suites."""


@main.command()
@click.argument("suite", type=click.Choice(SUITES))
@click.argument("cases", nargs=-1)
@click.option("--smoke", is_flag=True, help="Run the part of the suite that CI runs.")
@click.option(
    "--kafka",
    metavar="BOOTSTRAP",
    help="A control run: on this cluster, or for a suite that starts brokers on Apache Kafka's, whatever is given.",
)
@click.option("--grow", is_flag=True, help="Add the cases that passed to the suite's allow-list.")
def run(suite: str, cases: tuple[str, ...], smoke: bool, kafka: str | None, grow: bool) -> None:
    """Run a suite, whole or in part; exit with 1 where an expected case does not pass."""
    folder = HERE / suite
    cache = ROOT / ".cache" / "foreign" / suite
    cache.mkdir(parents=True, exist_ok=True)
    subprocess.run([folder / "get", cache], check=True, env=_environment())
    expected = Expectations.read(folder)
    if smoke:
        cases = tuple((folder / "smoke").read_text().split())
    with _clusters(folder, kafka) as environment:
        verdicts = list(_verdicts(folder, cache, cases, environment))
    surprises = expected.surprises(verdicts)
    for verdict in surprises:
        click.echo(f"unexpected: {verdict.outcome}\t{verdict.name}\t{verdict.why}")
    missing = expected.missing(verdicts, cases)
    for name in sorted(missing):
        click.echo(f"unexpected: did not run\t{name}")
    passed = sum(verdict.outcome == "ok" for verdict in verdicts)
    click.echo(
        f"{suite}: {passed} of {len(verdicts)} cases passed, {len(surprises) + len(missing)} unexpected"
    )
    if grow:
        expected.grown(verdicts).write(folder)
    if not verdicts:
        sys.exit(f"{suite}: no case ran")
    sys.exit(1 if surprises or missing else 0)


@main.command()
def scoreboard() -> None:
    """Write docs/foreign-suites.md, and README's line on it, from the suites' lists."""
    write_scoreboard([(name, Expectations.read(HERE / name)) for name in SUITES], ROOT)


def _environment() -> dict[str, str]:
    return os.environ | {"OTTLA": str(Path(sys.executable).parent / "ottla"), "ROOT": str(ROOT)}


@contextmanager
def _clusters(folder: Path, given: str | None) -> Iterator[Mapping[str, str]]:
    """Start the clusters that a suite asks for in its file `clusters`; a suite without one starts its own brokers.

    A line of the file is ``NAME BROKERS [first-id=N] [secure] [KEY=VALUE ...]``. The suite finds the cluster in the
    variables NAME_BOOTSTRAP, NAME_ZOOKEEPER and, for a secure one, NAME_SECURITY.
    """
    environment = _environment()
    wishes = folder / "clusters"
    if given is not None:
        yield environment | {"MAIN_BOOTSTRAP": given}
        return
    with ExitStack() as stack:
        for line in wishes.read_text().splitlines() if wishes.exists() else ():
            name, count, *settings = shlex.split(line)
            overrides = dict(setting.split("=", 1) for setting in settings if setting != "secure")
            first_id = int(overrides.pop("first-id", "0"))
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-foreign-"))
            cluster = stack.enter_context(
                Cluster.up(
                    Path(scratch) / "data",
                    brokers=int(count),
                    overrides=overrides,
                    first_id=first_id,
                    secure="secure" in settings,
                )
            )
            environment |= {
                f"{name}_BOOTSTRAP": cluster.bootstrap_servers,
                f"{name}_ZOOKEEPER": cluster.zookeeper,
                f"{name}_SECURITY": str(cluster.security),
            }
        yield environment


def _verdicts(
    folder: Path, cache: Path, cases: tuple[str, ...], environment: Mapping[str, str]
) -> Iterator[Verdict]:
    with (
        (cache / "output.log").open("w") as output,
        subprocess.Popen(
            [folder / "run", cache, *cases], stdout=subprocess.PIPE, stderr=output, text=True, env=environment
        ) as process,
    ):
        assert process.stdout is not None
        for verdict in read_verdicts(_copied(process.stdout, output)):
            click.echo(f"{verdict.outcome}\t{verdict.name}\t{verdict.why}".rstrip())
            yield verdict


def _copied(lines: Iterator[str], output: object) -> Iterator[str]:
    for line in lines:
        output.write(line)  # type: ignore[attr-defined]
        yield line


main()
