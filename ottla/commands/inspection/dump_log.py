"""``ottla dump-log``: kafka-dump-log's flags and output."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.commands.terminal.choice import json_option
from ottla.commands.terminal.failure import CommandError, failing_on
from ottla.log_dump.failure import DumpError

if TYPE_CHECKING:
    from ottla.log_dump.decoders import Decoder
    from ottla.log_dump.index_lines import Complaints
    from ottla.log_dump.lines import Line

_NO_LIMIT: Final = 0x7FFFFFFF
_STRINGS: Final = "org.apache.kafka.tools.api.StringDecoder"
_LINES_AT_ONCE: Final = 1000


@click.command("dump-log")
@click.option(
    "--files", required=True, metavar="FILE,...", help="The .log, index and snapshot files to dump."
)
@click.option("--print-data-log", is_flag=True, help="Print keys and values of records.")
@click.option("--deep-iteration", is_flag=True, help="Print each record, not only each batch.")
@click.option("--skip-record-metadata", is_flag=True, help="Print nothing of a record but key and value.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with their logs, print no entries.")
@click.option("--index-sanity-check", is_flag=True, help="Check indexes only as a broker does at its start.")
@click.option("--offsets-decoder", is_flag=True, help="The records are those of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="The records are those of __transaction_state.")
@click.option("--key-decoder-class", metavar="CLASS", help=f"How keys are read; {_STRINGS} if not given.")
@click.option("--value-decoder-class", metavar="CLASS", help="How values are read; as for keys.")
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    default=5 * 1024 * 1024,
    show_default=True,
    help="The largest batch that is looked for at an index entry's position, in bytes.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0),
    default=_NO_LIMIT,
    help="How much of a .log is looked at, in bytes.",
)
@json_option
@click.option("--cluster-metadata-decoder", is_flag=True, hidden=True)
@click.option("--remote-log-metadata-decoder", is_flag=True, hidden=True)
def command(files: str, *, as_json: bool, **options: Any) -> None:
    """Print what is in the files of a log, and what is wrong with them.

    They may be a running broker's: nothing is changed. As JSON it is one object a line, with Kafka's names.
    """
    from ottla.log_dump.index_lines import Complaints

    for flag in ("cluster_metadata_decoder", "remote_log_metadata_decoder"):
        if options[flag]:
            raise CommandError(
                f"--{flag.replace('_', '-')}: there is no such log without KRaft or tiered storage"
            )
    if options["offsets_decoder"] and options["transaction_log_decoder"]:
        raise click.UsageError("--offsets-decoder does not go with --transaction-log-decoder")
    complaints = Complaints()
    with failing_on(DumpError):
        decoder = _decoder(options)
        for name in files.split(","):
            lines = _file_lines(Path(name), decoder, options, complaints)
            _print(line.as_json(name) if as_json else line.text() for line in lines)
    for line in complaints.lines():
        click.echo(line, err=True)


def _decoder(options: dict[str, Any]) -> "Decoder | None":
    from ottla.log_dump.decoders import decode_offsets, decode_transactions, plain_decoder

    if options["offsets_decoder"]:
        return decode_offsets
    if options["transaction_log_decoder"]:
        return decode_transactions
    classes = options["key_decoder_class"], options["value_decoder_class"]
    if options["print_data_log"] or any(classes):
        return plain_decoder(classes[0] or _STRINGS, classes[1] or _STRINGS)
    return None


def _file_lines(
    path: Path, decoder: "Decoder | None", options: dict[str, Any], complaints: "Complaints"
) -> "Iterator[Line]":
    from ottla.log_dump import index_lines, log_lines
    from ottla.log_dump.lines import remark

    yield remark(f"Dumping {path}")
    index_options = index_lines.IndexOptions(
        sanity_only=options["index_sanity_check"],
        verify_only=options["verify_index_only"],
        max_message_size=options["max_message_size"],
    )
    try:
        match path.suffix:
            case ".log":
                gaps: list[tuple[int, int]] = []
                log_options = log_lines.LogOptions(
                    deep=options["deep_iteration"] or decoder is not None,
                    decoder=decoder,
                    record_metadata=not options["skip_record_metadata"],
                    max_bytes=None if options["max_bytes"] == _NO_LIMIT else options["max_bytes"],
                )
                yield from log_lines.log_lines(path, log_options, gaps)
                if gaps:
                    complaints.gaps[path.absolute()] = gaps
            case ".index":
                yield from index_lines.index_lines(path, index_options, complaints)
            case ".timeindex":
                yield from index_lines.time_index_lines(path, index_options, complaints)
            case ".txnindex":
                yield from index_lines.aborted_lines(path)
            case ".snapshot":
                try:
                    yield from index_lines.snapshot_lines(path)
                except DumpError as error:
                    click.echo(str(error), err=True)  # and on with the next file, as Kafka does
            case _:
                click.echo(f"Ignoring unknown file {path}", err=True)
    except OSError as error:
        raise CommandError(f"{error.filename or path}: {error.strerror}") from error


def _print(lines: Iterator[str]) -> None:
    """Print lines as they come, many at a time: a segment has millions."""
    held: list[str] = []
    try:
        for line in lines:
            held.append(line)
            if len(held) == _LINES_AT_ONCE:
                click.echo("\n".join(held))
                held.clear()
    finally:
        if held:
            click.echo("\n".join(held))
