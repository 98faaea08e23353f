"""The lines of the perf tools are Kafka's, so that scripts that parse them keep working."""

from datetime import UTC, datetime

import click
import pytest
from click.testing import CliRunner

from ottla.commands.performance.consumption_statistics import ConsumptionStatistics
from ottla.commands.performance.date_format import formatted
from ottla.commands.performance.end_to_end_latency import result_lines
from ottla.commands.performance.limits import limited_by
from ottla.commands.performance.metrics_table import metrics_lines
from ottla.commands.performance.production_statistics import ProductionStatistics
from ottla.commands.performance.several_values import SeveralValues


def test_a_window_and_the_total_of_a_producer() -> None:
    statistics = ProductionStatistics(0, 1000)
    assert statistics.acknowledged([10, 20], 200, 30) is None
    line = statistics.acknowledged([4000] * 998, 99_800, 5_000)
    assert (
        line
        == "1000 records sent, 200.0 records/sec (0.02 MB/sec), 998.0 ms avg latency, 1000.0 ms max latency."
    )
    assert statistics.acknowledged([6000], 1, 6_001) is None
    assert statistics.total_line(10_010) == (
        "1001 records sent, 100.000000 records/sec (0.01 MB/sec), 997.03 ms avg latency, 1000.00 ms max latency, "
        "1000 ms 50th, 1000 ms 95th, 1000 ms 99th, 1000 ms 99.9th."
    )
    assert statistics.as_json(10_010)["p50_ms"] == 1000


def test_a_window_begins_where_the_one_before_ended() -> None:
    statistics = ProductionStatistics(0, 10)
    assert statistics.acknowledged([0], 1, 7_000) is not None
    assert statistics.acknowledged([6_000], 1, 11_999) is None
    line = statistics.acknowledged([12_000], 1, 12_000)
    assert line is not None
    assert line.startswith("2 records sent, 0.4 records/sec")


def test_percentiles_are_of_the_sorted_latencies() -> None:
    statistics = ProductionStatistics(0, 1000)
    statistics.acknowledged([1000 - latency for latency in range(1000)], 0, 1000)
    assert statistics.percentiles() == [500, 950, 990, 999]


@pytest.mark.parametrize("sizes", [[1_500_000], [7] * 200_000 + [100_000]])
def test_of_many_records_every_nth_latency_is_kept(sizes: list[int]) -> None:
    statistics = ProductionStatistics(0, 1_500_000)
    number = 0
    for size in sizes:
        statistics.acknowledged(range(-number, -number - size, -1), 0, 0)
        number += size
    assert statistics._latencies == list(range(0, 1_500_000, 3))


def test_the_rows_of_a_consumer() -> None:
    statistics = ConsumptionStatistics(1_000)
    statistics.joined(1_500)
    statistics.consumed(100, 1024 * 1024)
    assert statistics.window_row(2_000, 5_000, str) is None
    assert (
        statistics.window_row(6_000, 5_000, str)
        == "6000, 0, 1.0000, 0.2000, 100, 20.0000, 500, 4500, 0.2222, 22.2222"
    )
    statistics.consumed(100, 1024 * 1024)
    assert (
        statistics.window_row(11_000, 5_000, str)
        == "11000, 0, 2.0000, 0.2000, 200, 20.0000, 0, 5000, 0.2000, 20.0000"
    )
    assert (
        statistics.total_row(11_000, str)
        == "1000, 11000, 2.0000, 0.2000, 200, 20.0000, 500, 9500, 0.2105, 21.0526"
    )
    assert statistics.as_json(11_000)["fetch_ms"] == 9_500


def test_end_to_end_results() -> None:
    assert result_lines([1.5] * 500 + [3.9] * 499 + [40.0]) == [
        f"Avg latency: {(750 + 3.9 * 499 + 40) / 1000:.4f} ms",
        "Percentiles: 50th = 3, 99th = 3, 99.9th = 40",
    ]


def test_dates_are_written_as_simple_date_format_does() -> None:
    moment = datetime(2026, 11, 2, 13, 4, 5, 67_890, UTC)
    assert formatted("yyyy-MM-dd HH:mm:ss:SSS", moment) == "2026-11-02 13:04:05:067"
    assert formatted("yy/MM 'o''clock' hh a''", moment) == "26/11 o'clock 01 PM'"
    with pytest.raises(ValueError, match="'EEE'"):
        formatted("EEE", moment)


@pytest.mark.parametrize(
    ("rate", "asked", "processor_s", "expected"),
    [
        (99.0, 100.0, 1.0, "the rate that was asked for"),
        (50.0, 100.0, 9.5, "this process, which used 95%"),
        (50.0, None, 3.0, "the brokers or the way to them: this process used 30%"),
    ],
)
def test_what_limited(rate, asked, processor_s, expected) -> None:
    assert limited_by(rate=rate, asked=asked, processor_s=processor_s, elapsed_s=10.0).startswith(expected)


def test_metrics_stand_below_each_other() -> None:
    assert metrics_lines("g", "c", {"bb": 1.0, "a": 2.5}) == [
        "",
        "Metric Name          Value",
        "g:a:{client-id=c}  : 2.500",
        "g:bb:{client-id=c} : 1.000",
    ]


def test_an_option_takes_several_values() -> None:
    @click.command(cls=SeveralValues)
    @click.option("--producer-props", multiple=True)
    @click.option("--flag", is_flag=True)
    def command(producer_props: tuple[str, ...], flag: bool) -> None:
        click.echo(f"{producer_props} {flag}")

    done = CliRunner().invoke(command, ["--producer-props", "a=1", "b=2", "--flag"])
    assert done.output == "('a=1', 'b=2') True\n"
