"""Options that take several values behind one name, as Kafka's argparse4j tools have them."""

from collections.abc import Sequence

import click


class SeveralValues(click.Command):
    """A command whose ``--producer-props a=1 b=2`` means the option twice."""

    several: Sequence[str] = ("--producer-props",)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option's name before each of its values, and parse."""
        repeated: list[str] = []
        name: str | None = None
        first = False
        for each in args:
            if each in self.several:
                name, first = each, True
                repeated.append(each)
            elif name is not None and not each.startswith("--"):
                repeated += [each] if first else [name, each]
                first = False
            else:
                name = None
                repeated.append(each)
        return super().parse_args(ctx, repeated)
