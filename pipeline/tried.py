"""Expressions of the user that fail on a record: a failure is the record's, and not the end of the job."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column


def tried(expressions: "dict[str, Column]", only_where: "Column") -> "Column":
    """Return a struct of expressions, null where one of them fails.

    Spark's strict arithmetic (ANSI) raises for a value that does not fit. SQL has a `try_` variant of some functions;
    the expression behind those, `TryEval`, takes any. Loose arithmetic is no way out: a number that overflows becomes
    another one.

    Args:
        expressions: By the name that each has in the struct.
        only_where: Which rows to evaluate, not a constant. Spark evaluates what an expression has twice ahead of it,
            where no failure is caught, unless that is under a condition.
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
