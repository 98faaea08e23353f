"""``python -m tests.compat.foreign``: run other people's test suites against Ottla or Apache Kafka.

python -m tests.compat.foreign run librdkafka [--smoke] [--kafka] [--grow] [CASE ...]
python -m tests.compat.foreign scoreboard
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
@click.option("--kafka", metavar="BOOTSTRAP", help="Run against this cluster instead: a control run.")
@click.option("--grow", is_flag=True, help="Add the cases that passed to the suite's allow-list.")
def run(suite: str, cases: tuple[str, ...], smoke: bool, kafka: str | None, grow: bool) -> None:
    """Run a suite, whole or in part; exit with 1 where an expected case does not pass."""
    folder = HERE / suite
    cache = ROOT / ".cache" / "foreign" / suite
    cache.mkdir(parents=True, exist_ok=True)
    subprocess.run([folder / "get", cache], check=True)
    expected = Expectations.read(folder)
    if smoke:
        cases = tuple((folder / "smoke").read_text().split())
    with _cluster(folder, kafka) as environment:
        verdicts = list(_verdicts(folder, cache, cases, environment))
    surprises = expected.surprises(verdicts)
    for verdict in surprises:
        click.echo(f"unexpected: {verdict.outcome}\t{verdict.name}\t{verdict.why}")
    missing = set() if cases else expected.missing(verdicts)
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
    """Write docs/foreign-suites.md from the suites' lists."""
    write_scoreboard(
        [(name, Expectations.read(HERE / name)) for name in SUITES], ROOT / "docs" / "foreign-suites.md"
    )


@contextmanager
def _cluster(folder: Path, given: str | None) -> Iterator[Mapping[str, str]]:
    """Start the cluster that a suite asks for in its file `cluster`; a suite without one starts its own brokers."""
    environment = os.environ | {"OTTLA": str(Path(sys.executable).parent / "ottla"), "ROOT": str(ROOT)}
    wishes = folder / "cluster"
    if given is not None:
        yield environment | {"BOOTSTRAP": given}
    elif not wishes.exists():
        yield environment
    else:
        count, *lines = wishes.read_text().split()
        overrides = dict(line.split("=", 1) for line in lines)
        with (
            tempfile.TemporaryDirectory(prefix="ottla-foreign-") as scratch,
            Cluster.up(Path(scratch) / "data", brokers=int(count), overrides=overrides) as cluster,
        ):
            yield environment | {"BOOTSTRAP": cluster.bootstrap_servers, "ZOOKEEPER": cluster.zookeeper}


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
