"""``ottla pipeline``: Spark jobs on the cluster."""

import click

from ottla.commands.failure import failing_on


@click.command(
    "pipeline",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Move topics into tables and tables into topics with Spark, and check them."""
    from pipeline.command_line import run_command
    from pipeline.failure import JobError

    with failing_on(JobError):
        context.exit(run_command(arguments or ("--help",)))
