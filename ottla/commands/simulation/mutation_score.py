"""``ottla simulate --mutations``: weakens rules of the product, one at a time, and counts seeds until it is noticed."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from simulation.soup.batch import Hunt, Mix


def score(names: Sequence[str], seeds: Sequence[int], mix: "Mix", jobs: int, *, as_json: bool) -> bool:
    """Hunt for mutations, and print a Markdown table of what noticed each.

    Interrupted by Ctrl-C, it prints what is known by then.

    Args:
        names: Names in `MUTATIONS`.
        seeds: Which to run with each, until one fails.
        mix: What plans are drawn from.
        jobs: How many processes.
        as_json: Print a list of objects instead.

    Returns:
        Whether every one was noticed.
    """
    from simulation.soup.batch import hunt

    found: dict[str, Hunt] = {}
    try:
        for each in hunt(names, seeds, mix, jobs):
            found[each.name] = each
            if sys.stderr.isatty():
                click.echo(f"{len(found)} of {len(names)}: {_line(each)}", err=True)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
    known = [found[name] for name in names if name in found]
    noticed = sum(each.caught is not None for each in found.values())
    if as_json:
        click.echo(json.dumps([_object(each) for each in known], indent=2))
    else:
        click.echo("| mutation | what is weakened | noticed by | seeds |\n|---|---|---|---|")
        for each in known:
            click.echo(_line(each))
        click.echo(f"\n{noticed} of {len(names)} mutations were noticed.")
    return noticed == len(names)


def _line(hunt: "Hunt") -> str:
    from simulation.soup.mutations import MUTATIONS

    by = "nothing" if hunt.caught is None else hunt.caught.kind
    return f"| `{hunt.name}` | {MUTATIONS[hunt.name].weakens} | {by} | {hunt.seeds} |"


def _object(hunt: "Hunt") -> dict[str, Any]:
    caught = hunt.caught
    return {
        "name": hunt.name,
        "noticed_by": None if caught is None else caught.kind,
        "seed": None if caught is None else caught.plan.seed,
        "seeds": hunt.seeds,
    }
