"""The Python of Spark's workers in the tests: what each of them would import is there already.

Spark forks a process for every plan, commit and task of a data source, and each begins with a
second of imports: three quarters of what the Spark tests cost. Their daemon starts as this program,
imports once, and goes on as Spark's own. Spark itself imports nothing before it forks because some
packages start threads; the one thread that is started here is the allocator's, and the allocator
starts it again after a fork.

Spark also puts archives on the path, and each task makes Python read their lists of files again.
Here pyspark is the installed one (``scripts/spark-classes`` has the same for plain daemons).

The sessions of pages, examples and installed wheels have the plain daemon.
"""

from __future__ import annotations

import os
import shlex
import sys
from functools import cache
from pathlib import Path

__all__ = ["workers_python"]

DAEMON = ["-m", "pyspark.daemon"]
MODULES = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "blockstore.spark.merging",
    "blockstore.spark.source",
)


@cache
def workers_python() -> str:
    """The path of a program for ``PYSPARK_PYTHON``: this interpreter, whose Spark daemon has
    imported."""
    program = Path(sys.prefix) / "spark-workers"
    text = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(__file__)} "$@"\n'
    if not program.exists() or program.read_text() != text:
        # In one step: another process of the tests may run it now.
        made = program.with_name(f"{program.name}.{os.getpid()}")
        made.write_text(text)
        made.chmod(0o755)
        made.replace(program)
    return str(program)


def main(arguments: list[str]) -> None:
    if arguments[:2] != DAEMON:
        os.execv(sys.executable, [sys.executable, *arguments])
    sys.argv = arguments[1:]
    sys.path[0] = os.getcwd()  # as ``-m`` does it
    sys.path[:] = [path for path in sys.path if not path.endswith((".zip", ".jar"))]
    import importlib

    for name in MODULES:
        importlib.import_module(name)
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main(sys.argv[1:])
