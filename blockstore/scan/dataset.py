"""A snapshot as a dataset of pyarrow: DuckDB, Polars and others read it with columns and filters
pushed down, each batch as it comes.

Rules:
- It is a snapshot: the same rows at every read.
- A filter is a pyarrow expression. It skips chunks by their statistics and is applied to the rest,
  so every row that comes meets it.
- There are no fragments: which rows are current depends on several files at once.
- What Arrow does with a dataset below Python (joins, unions, ``Scanner.from_dataset``) would go
  past the snapshot. There it finds one file that refuses to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

import pyarrow as pa
import pyarrow.dataset as pd
import pyarrow.fs as fs

from blockstore.errors import Invalid
from blockstore.scan.snapshot import Snapshot

_HEAD = 5
_HOW = {
    "batch_readahead",
    "cache_metadata",
    "fragment_readahead",
    "fragment_scan_options",
    "memory_pool",
    "use_threads",
}


class Rows(Protocol):
    """Rows to be read: a ``Scan``."""

    def to_reader(self) -> pa.RecordBatchReader: ...


class Source(Protocol):
    """What has the rows: a ``TableSnapshot``."""

    @property
    def snapshot(self) -> Snapshot: ...
    def count(self) -> int: ...
    def scan(self, *, columns: Iterable[str] | None = None, where: Any = None) -> Rows: ...


def _refuse(*_: object, **__: object) -> NoReturn:
    raise Invalid(
        "Arrow cannot do this with the dataset of a snapshot: read it with to_table, to_batches, "
        "head or count_rows, and go on with what they return"
    )


_NO_FILES = type(fs.FileSystemHandler)(
    "_NoFiles",
    (fs.FileSystemHandler,),
    {
        **dict.fromkeys(fs.FileSystemHandler.__abstractmethods__, _refuse),
        "get_type_name": lambda _: "snapshot",
    },
)
"""A file system whose every function refuses."""


class SnapshotDataset(pd.FileSystemDataset):
    """The rows of a snapshot."""

    def __init__(self, snapshot: Source) -> None:
        self._snapshot = snapshot
        files, form = fs.PyFileSystem(_NO_FILES()), pd.ParquetFileFormat()
        super().__init__([form.make_fragment("snapshot", files)], self.schema, form, files)

    @property
    def schema(self) -> pa.Schema:
        """The visible columns."""
        visible = self._snapshot.snapshot.columns.visible
        return pa.schema([pa.field(column.name, column.type) for column in visible])

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pa.compute.Expression | None = None,  # noqa: A002
        batch_size: int | None = None,
        **how: Any,
    ) -> SnapshotScanner:
        """Return a scanner of the rows that meet ``filter``, with these columns. Options that only
        say how files are read have no effect. Raises Invalid."""
        unknown = sorted(how.keys() - _HOW)
        if unknown:
            raise Invalid(f"a scanner has no option {unknown[0]!r}")
        if isinstance(columns, dict):
            raise Invalid("columns are a list of names here: compute with what is read")
        names = self.schema.names if columns is None else list(columns)
        # A scan has a column at least; rows are counted by the first one.
        scan = self._snapshot.scan(columns=names or self.schema.names[:1], where=filter)
        return SnapshotScanner(self, scan, self._columns(names), batch_size)

    def _columns(self, names: Sequence[str]) -> pa.Schema:
        """These columns, hidden ones too."""
        found = self._snapshot.snapshot.columns.select(names) if names else ()
        return pa.schema([pa.field(column.name, column.type) for column in found])

    def to_batches(self, *asked: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        """Read batches."""
        return self.scanner(*asked, **named).to_batches()

    def to_table(self, *asked: Any, **named: Any) -> pa.Table:
        """Read all."""
        return self.scanner(*asked, **named).to_table()

    def head(self, num_rows: int = _HEAD, *asked: Any, **named: Any) -> pa.Table:
        """Read the first rows."""
        return self.scanner(*asked, **named).head(num_rows)

    def take(self, indices: pa.Array, *asked: Any, **named: Any) -> pa.Table:
        """Read all and take the rows at these places."""
        return self.to_table(*asked, **named).take(indices)

    filter = join = join_asof = replace_schema = sort_by = _refuse

    def count_rows(self, filter: pa.compute.Expression | None = None, **_: Any) -> int:  # noqa: A002
        """Count rows; all of them from metadata, where nothing hides one."""
        if filter is None:
            return self._snapshot.count()
        return self.scanner(columns=[], filter=filter).count_rows()

    def get_fragments(self, filter: object = None) -> NoReturn:  # noqa: A002
        """Raise Invalid."""
        raise Invalid("a snapshot has no fragments: read it by a scanner")


class SnapshotScanner:
    """One read of a dataset."""

    def __init__(
        self, dataset: SnapshotDataset, scan: Rows, schema: pa.Schema, batch_size: int | None
    ) -> None:
        self._dataset = dataset
        self._scan = scan
        self._schema = schema
        self._batch_size = batch_size

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the dataset."""
        return self._dataset.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that are read."""
        return self._schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a stream of batches."""
        return pa.RecordBatchReader.from_batches(self._schema, self.to_batches())

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read batches."""
        for batch in self._scan.to_reader():
            plain = batch.select(self._schema.names)
            if len(self._schema):  # a cast of no columns forgets how many rows there are
                plain = plain.cast(self._schema)
            step = self._batch_size or max(1, plain.num_rows)
            for first in range(0, plain.num_rows, step):
                yield plain.slice(first, step)

    def to_table(self) -> pa.Table:
        """Read all."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows."""
        found, left = [], num_rows
        for batch in self.to_batches():
            if left <= 0:
                break
            found.append(batch.slice(0, left))
            left -= len(found[-1])
        return pa.Table.from_batches(found, self._schema)

    def count_rows(self) -> int:
        """Count the rows."""
        return sum(batch.num_rows for batch in self.to_batches())
