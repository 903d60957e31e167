"""The classes that Spark's errors have in Python. Importing this imports PySpark."""

from __future__ import annotations

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JError
except ImportError:  # a client of Spark Connect alone has no JVM to talk to
    SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_FAILURES = (PySparkException, Py4JError)
