"""One run of a pipeline in a process of its own: prints its peaks of memory in MB, Python's and the JVM's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from memory import jvm_peak, python_peak
from pipelines import our_run

from tidemill.spark.session import embedded


def main() -> None:
    spark = embedded()
    our_run(spark, Path(sys.argv[1]))
    print(json.dumps([python_peak(), jvm_peak(spark)]))


if __name__ == "__main__":
    main()
