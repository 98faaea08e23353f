"""The settings of the aggregate job."""

from dataclasses import dataclass, field

from pipeline.kafka_source import ClusterOptions
from pipeline.options import about


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateConfig(ClusterOptions):
    """What to aggregate, and where the progress is kept."""

    spec: str = field(metadata=about("What to aggregate: a TOML or JSON file.", metavar="FILE"))
    checkpoint: str = field(metadata=about("Where progress and state are kept.", metavar="PATH"))
    state_partitions: int = field(
        default=4, metadata=about("Into how many parts keys are spread; stays with the checkpoint.")
    )
    offsets_per_batch: int | None = field(default=None, metadata=about("The most records in one batch."))
    trigger_s: float = field(default=10.0, metadata=about("Seconds between the starts of batches."))
    once: bool = field(default=False, metadata=about("Read what is there now, and end."))
    fail_on_data_loss: bool = field(
        default=True, metadata=about("Fail where records were gone before they were read.")
    )
    progress_group: str | None = field(
        default=None, metadata=about("A consumer group that the progress is committed to.", metavar="GROUP")
    )
