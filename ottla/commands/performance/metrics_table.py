"""A client's metrics as Kafka's perf tools print them."""

from collections.abc import Mapping


def metrics_lines(group: str, client_id: str, metrics: Mapping[str, float]) -> list[str]:
    """Return the lines of ``--print-metrics``."""
    names = {name: f"{group}:{name}:{{client-id={client_id}}}" for name in sorted(metrics)}
    width = max(map(len, names.values()))
    lines = ["", f"{'Metric Name':<{width}}   Value"]
    lines += [f"{shown:<{width}} : {metrics[name]:.3f}" for name, shown in names.items()]
    return lines
