"""User expressions that may fail on a record: the failure concerns that record, and does not end the job."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column


def tried(expressions: "dict[str, Column]", only_where: "Column") -> "Column":
    """Return a struct of expressions, null where one of them fails.

    Spark's strict arithmetic (ANSI) raises for a value that does not fit. SQL has a `try_` variant of some functions;
    the expression behind those, `TryEval`, takes any. Turning ANSI off is no alternative: a number that overflows
    becomes another one.

    Args:
        expressions: By the name that each has in the struct.
        only_where: Which rows to evaluate, not a constant. Spark evaluates a common subexpression ahead of the whole,
            where no failure is caught, unless it is under a condition.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql.classic.column import Column as ClassicColumn

    spark = SparkSession.getActiveSession()
    assert spark is not None
    java: Any = spark._jvm
    bridge = java.org.apache.spark.sql.classic.ExpressionUtils
    whole: Any = F.struct(*[column.alias(name) for name, column in expressions.items()])
    caught = java.org.apache.spark.sql.catalyst.expressions.TryEval(bridge.expression(whole._jc))
    return F.when(only_where, ClassicColumn(bridge.column(caught)))
