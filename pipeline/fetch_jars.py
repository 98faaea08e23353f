"""Fetch every jar that a job can need, for a machine that will have no network.

python -m ottla.pipeline.fetch_jars     # in a clone: python -m pipeline.fetch_jars
"""

import sys

from pipeline.failure import JobError
from pipeline.jars import require_jars
from pipeline.spark_submit import spark_environment, spark_home
from pipeline.versions import AVRO, DELTA, KAFKA


def main() -> int:
    """Fetch what Spark's Ivy folder lacks, and print where each jar is."""
    try:
        jars = require_jars(
            [KAFKA, DELTA, AVRO],
            given=None,
            conf={},
            submit=[str(spark_home() / "bin" / "spark-submit")],
            environment=spark_environment("local"),
        )
    except JobError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    sys.stdout.writelines(f"{jar}\n" for jar in jars)
    return 0


if __name__ == "__main__":
    sys.exit(main())
