"""What a caller may hand in as rows, turned into a stream of record batches.

Anything with the Arrow PyCapsule interface (pyarrow, polars, pandas 2.2 and newer, DuckDB
relations, nanoarrow, …), a ``RecordBatchReader`` or an iterable of record batches. Nothing is
copied and nothing is read ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from blockstore.errors import Invalid


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """The rows of ``data`` as record batches, in their order; raises Invalid for what holds no
    table."""
    if isinstance(data, pa.RecordBatch):
        return iter([data])
    if isinstance(data, pa.Table):
        return iter(data.to_batches())
    if isinstance(data, pa.RecordBatchReader):
        return iter(data)
    if hasattr(data, "__arrow_c_stream__"):
        return iter(_reader(data))
    if hasattr(data, "__arrow_c_array__"):
        return iter([_record_batch(data)])
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        return _checked(data)
    raise Invalid(
        f"cannot append {_kind(data)}: expected a pyarrow Table, RecordBatch or "
        "RecordBatchReader, a pandas or polars DataFrame, anything with __arrow_c_stream__, or "
        "an iterable of record batches"
    )


def _reader(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(_without_index(data))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise Invalid(
            f"cannot read {_kind(data)} as a table of Arrow batches ({error}): expected columns "
            "of one type each; convert it to a pyarrow Table first"
        ) from error


def _record_batch(data: Any) -> pa.RecordBatch:
    try:
        return pa.record_batch(data)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise Invalid(
            f"cannot read {_kind(data)} as a record batch ({error}): expected a struct array with "
            "one field per column"
        ) from error


def _without_index(data: Any) -> Any:
    """A pandas index of row numbers is not a column; one that carries a name is the caller's own
    and stays."""
    if type(data).__module__.partition(".")[0] != "pandas" or not hasattr(data, "index"):
        return data
    names = [name for name in data.index.names if name is not None]
    return pa.Table.from_pandas(data, preserve_index=bool(names)).replace_schema_metadata(None)


def _checked(batches: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches, start=1):
        if isinstance(batch, pa.RecordBatch):
            yield batch
        elif isinstance(batch, pa.Table):
            yield from batch.to_batches()
        else:
            raise Invalid(
                f"item {number} of the appended iterable is {_kind(batch)}: expected a pyarrow "
                "RecordBatch; make one from rows with pyarrow.RecordBatch.from_pylist"
            )


def _kind(data: Any) -> str:
    return f"a {type(data).__module__}.{type(data).__qualname__}".replace("builtins.", "")
