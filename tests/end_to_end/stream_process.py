"""A streaming query in a process of its own, which halts at a named point of a micro-batch until it
is killed.

Run as ``python -m tests.end_to_end.stream_process FOLDER``: it copies the table ``FOLDER/source``
to ``FOLDER/sink``, one block a micro-batch, and ends when everything is copied.
``FOLDER/stop.json`` names a point and a batch; whoever reaches them, in whatever process of Spark,
writes its process id into ``FOLDER/reached`` and goes no further.

Points: ``chunks`` (a task's chunks are written), ``meta`` (the block's meta.json is), ``entry``
(the index entry is, and the sink has not answered yet), ``log`` (the sink has answered, Spark has
written its own log, and the next batch has not written a byte).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from blockstore.spark.source import BlockstoreSource
from tests.support.spark import start_session
from tests.support.streams import run_to_end

__all__ = ["POINTS", "HaltingSource", "HaltingWriter"]

POINTS = ("chunks", "meta", "entry", "log")


class HaltingWriter(DataSourceStreamArrowWriter):
    """The sink's own writer, which halts where it is told to."""

    def __init__(self, inner: DataSourceStreamArrowWriter, folder: str) -> None:
        self._inner = inner
        self._folder = folder

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        batch = int(task.getLocalProperty("streaming.sql.batchId") or -1)
        self._halt_at("log", batch - 1)
        answer = self._inner.write(iterator)
        self._halt_at("chunks", batch)
        return answer

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from blockstore.operations.append import ByEntry

        publish = ByEntry.publish

        def halting(*args: object, **kwargs: object) -> object:
            self._halt_at("meta", batchId)
            return publish(*args, **kwargs)  # type: ignore[arg-type]

        ByEntry.publish = halting  # type: ignore[assignment, method-assign]
        try:
            self._inner.commit(messages, batchId)
        finally:
            ByEntry.publish = publish  # type: ignore[method-assign]
        self._halt_at("entry", batchId)

    def _halt_at(self, point: str, batch: int) -> None:
        told = Path(self._folder, "stop.json")
        if not told.exists() or json.loads(told.read_text()) != {"point": point, "batch": batch}:
            return
        part = Path(self._folder, f"reached.{os.getpid()}")
        part.write_text(str(os.getpid()))
        part.rename(Path(self._folder, "reached"))
        threading.Event().wait()


class HaltingSource(BlockstoreSource):
    """``format("blockstore")`` with a sink that halts."""

    @classmethod
    def name(cls) -> str:
        return "halting"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        folder = str(self.options["folder"])
        plain = {name: value for name, value in self.options.items() if name.lower() != "folder"}
        return HaltingWriter(BlockstoreSource(plain).streamWriter(schema, overwrite), folder)


def main(folder: str) -> None:
    session = start_session()
    session.dataSource.register(HaltingSource)
    rows = session.readStream.format("blockstore").option("max_blocks", 1).load(f"{folder}/source")
    query = (
        rows.writeStream.format("halting")
        .option("folder", folder)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
    )
    run_to_end(lambda: query.start(f"{folder}/sink"), deadline_s=24 * 3600)
    session.stop()


if __name__ == "__main__":
    # By its full name, so that workers find the classes again.
    from tests.end_to_end import stream_process

    stream_process.main(sys.argv[1])
