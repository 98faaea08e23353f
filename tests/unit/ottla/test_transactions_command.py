"""kafka-transactions' flags: which are required, and which can be combined."""

import pytest
from click.testing import CliRunner

from ottla.commands.transactions.transactions import command

SERVER = ["--bootstrap-server", "127.0.0.1:1"]
PLACE = ["--topic", "t", "--partition", "0"]

WRONG = {
    "no server": ["list"],
    "describe without id": [*SERVER, "describe"],
    "producers without partition": [*SERVER, "describe-producers", "--topic", "t"],
    "abort of nothing": [*SERVER, "abort", *PLACE],
    "abort by offset and producer": [*SERVER, "abort", *PLACE, "--start-offset", "0", "--producer-id", "1"],
    "abort by half a producer": [*SERVER, "abort", *PLACE, "--producer-id", "1", "--producer-epoch", "0"],
    "abort by offset and epoch": [*SERVER, "abort", *PLACE, "--start-offset", "0", "--producer-epoch", "0"],
    "hanging anywhere": [*SERVER, "find-hanging"],
    "hanging partition of no topic": [*SERVER, "find-hanging", "--broker-id", "1", "--partition", "0"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG.keys())
def test_flags_that_are_missing_or_do_not_go_together(arguments: list[str]) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2, result.output
    assert "Error:" in result.output


def test_a_cluster_that_is_not_there_is_named() -> None:
    result = CliRunner().invoke(command, [*SERVER, "--timeout", "200", "list"])
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.output
