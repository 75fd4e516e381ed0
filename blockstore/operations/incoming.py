"""What a caller may hand in as rows, turned into a stream of record batches.

Anything with the Arrow PyCapsule interface (pyarrow, polars, pandas 2.2 and newer, DuckDB
relations, nanoarrow, …), a ``RecordBatchReader`` or an iterable of record batches. Nothing is read
ahead, and nothing is copied, but for columns that Arrow cannot take from or filter: text and binary
views, as polars has them, run-ends and list views become plain here, some rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.casting import refuse_doubled
from blockstore.format.views import plain_schema, without_views

_AT_ONCE = 65_536
"""So many rows are made plain at once."""


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """The rows of ``data`` as record batches, in their order; raises Invalid for what holds no
    table."""
    return _plain(_batches(data), data)


def table_of(data: Any) -> pa.Table:
    """All rows of ``data``, which may also be a mapping of columns. Raises Invalid."""
    if isinstance(data, dict):
        data = _from_columns(data)
    if isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        schema, batches = data.schema, list(batches_of(data))
    elif hasattr(data, "__arrow_c_stream__"):
        reader = _reader(data)
        schema, batches = reader.schema, list(_plain(_read(reader, data), data))
    else:
        batches = list(batches_of(data))
        schema = batches[0].schema if batches else None
    if schema is None:
        raise Invalid(
            f"{_kind(data)} without a record batch has no columns: give a pyarrow Table of no rows"
        )
    refuse_doubled(schema.names)
    try:
        return pa.Table.from_batches(batches, plain_schema(schema))
    except pa.ArrowException as error:
        raise Invalid(
            f"the record batches have several schemas ({error}): give them one schema"
        ) from None


def _from_columns(data: dict[Any, Any]) -> pa.Table:
    try:
        return pa.table(data)
    except (pa.ArrowException, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise Invalid(
            f"cannot read a dict as a table ({error}): expected a list or an array of values of "
            "one type for each column, all of one length"
        ) from None


def _batches(data: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(data, pa.RecordBatch):
        return iter([data])
    if isinstance(data, pa.Table):
        return iter(data.to_batches())
    if isinstance(data, pa.RecordBatchReader):
        return iter(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _read(_reader(data), data)
    if hasattr(data, "__arrow_c_array__"):
        return iter([_record_batch(data)])
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | dict):
        return _checked(data)
    raise Invalid(
        f"cannot take {_kind(data)} as rows: expected a pyarrow Table, RecordBatch or "
        "RecordBatchReader, a pandas or polars DataFrame, anything with __arrow_c_stream__, or "
        "an iterable of record batches"
    )


def _plain(batches: Iterator[pa.RecordBatch], data: Any) -> Iterator[pa.RecordBatch]:
    """The batches, with plain columns."""
    for batch in batches:
        given = batch.schema
        refuse_doubled(given.names)
        schema = plain_schema(given)
        if schema is given:
            yield batch
            continue
        for start in range(0, max(len(batch), 1), _AT_ONCE):
            piece = batch.slice(start, _AT_ONCE)
            try:
                columns = [without_views(column) for column in piece.columns]
                plain = pa.RecordBatch.from_arrays(columns, schema=schema)
            except (pa.ArrowException, ValueError) as error:
                raise Invalid(
                    f"cannot read the columns of {_kind(data)} ({error}): give plain ones, of "
                    "strings and not of views"
                ) from error
            yield plain


def _reader(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(_without_index(data))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise _unreadable(data, error) from error


def _read(reader: pa.RecordBatchReader, data: Any) -> Iterator[pa.RecordBatch]:
    """The batches of ``data``, which can turn out to be none, as structs of which some are null."""
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise _unreadable(data, error) from error
        yield batch


def _unreadable(data: Any, error: Exception) -> Invalid:
    return Invalid(
        f"cannot read {_kind(data)} as a table of Arrow batches ({error}): expected columns "
        "of one type each; convert it to a pyarrow Table first"
    )


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
                f"item {number} of the iterable of rows is {_kind(batch)}: expected a pyarrow "
                "RecordBatch; make one from rows with pyarrow.RecordBatch.from_pylist"
            )


def _kind(data: Any) -> str:
    return f"a {type(data).__module__}.{type(data).__qualname__}".replace("builtins.", "")
