"""A cluster's state as tables for the terminal."""

from typing import TYPE_CHECKING

from ottla.commands.terminal.console import new_table, numbers

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ottla.commands.local.cluster_view import ClusterView, PartitionView

_STATE_STYLES = {"running": "green", "stopped": "red"}


def render(view: "ClusterView", *, partitions_max: int | None) -> "RenderableType":
    """Return the tables of brokers and partitions.

    Args:
        view: What to show.
        partitions_max: How many partitions fit, those with a problem first; None shows all.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_brokers(view)]
    if view.partitions:
        # Of the own topics of the cluster, many and alike, only what nobody leads is worth a line.
        shown = [p for p in view.partitions if not p.topic.startswith("__") or p.leader < 0]
        shown.sort(key=lambda p: p.is_healthy)
        shown = sorted(shown[:partitions_max], key=lambda p: (p.topic, p.partition))
        if shown:
            parts += [Text(""), _partitions(shown)]
        hidden = len(view.partitions) - len(shown)
        if hidden:
            parts.append(Text(f"... and {hidden} partitions more", style="dim"))
    parts.append(Text(""))
    for line in (f"ZooKeeper {view.state.zookeeper}", f"bootstrap servers {view.state.bootstrap_servers}"):
        parts.append(Text(line, no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _brokers(view: "ClusterView") -> "RenderableType":
    table = new_table("Broker", "State", "Address", "Pid", "Leads", "Hosts", "Behind")
    for status in view.brokers:
        record = status.record
        leads = [p for p in view.partitions if p.leader == record.id]
        hosts = [p for p in view.partitions if record.id in p.replicas]
        behind = [p for p in hosts if record.id not in p.isr]
        style = _STATE_STYLES.get(status.state, "yellow")
        table.add_row(
            f"{record.id} ◆ controller" if record.id == view.controller_id else str(record.id),
            f"[{style}]{status.state}[/{style}]",
            f"{record.host}:{record.port}",
            str(record.pid) if record.is_running else "-",
            str(len(leads)),
            str(len(hosts)),
            str(len(behind)),
        )
    return table


def _partitions(shown: list["PartitionView"]) -> "RenderableType":
    table = new_table("Topic", "Partition", "Leader", "Epoch", "Replicas", "ISR")
    for partition in shown:
        isr = numbers(partition.isr)
        table.add_row(
            partition.topic,
            str(partition.partition),
            str(partition.leader) if partition.leader >= 0 else "[red]none[/red]",
            str(partition.leader_epoch),
            numbers(partition.replicas),
            f"[yellow]{isr}[/yellow]" if partition.is_under_replicated else isr,
        )
    return table
