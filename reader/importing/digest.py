"""What rows amount to, whatever their order: to compare the rows of two tables."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid

_WORD = 2**64


class RowDigest:
    """Counts rows and adds up their hashes.

    Two digests are equal if the rows are equal, each as often in one as in the other; if rows
    differ, by a chance of one in 2**64.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._hashes = 0
        self._connection = duckdb.connect(":memory:", config={"threads": 1})

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows. The order of columns counts, their names do not. Raises Invalid for values that
        have no hash."""
        columns = [_hashable(column) for column in batch.columns]
        names = [f"c{place}" for place in range(len(columns))]
        # DuckDB's hash of nested values does not tell null, [] and [null] apart, their texts do;
        # and it takes both zeros for one.
        texts = [
            f"{name}::VARCHAR"
            for name, column in zip(names, columns, strict=True)
            if pt.is_nested(column.type) or pt.is_floating(column.type)
        ]
        self._connection.register("batch", pa.table(columns, names=names))
        asked = ", ".join([*names, *texts])
        try:
            ((found,),) = self._connection.execute(
                f"SELECT sum(hash({asked})) FROM batch"
            ).fetchall()
        except duckdb.Error as error:
            raise Invalid(f"the rows cannot be compared: {str(error).splitlines()[0]}") from error
        finally:
            self._connection.unregister("batch")
        self.rows += batch.num_rows
        self._hashes = (self._hashes + int(found or 0)) % _WORD

    def close(self) -> None:
        """Give its memory back."""
        self._connection.close()

    @property
    def value(self) -> tuple[int, int]:
        """The count, and the sum of hashes modulo 2**64."""
        return self.rows, self._hashes


def _hashable(column: pa.Array) -> pa.Array:
    """The column, moments and durations as the integers that they are: DuckDB's own have other
    limits and units."""
    kind = column.type
    if pt.is_timestamp(kind) or pt.is_duration(kind) or pt.is_date64(kind) or pt.is_time64(kind):
        return column.view(pa.int64())
    if pt.is_date32(kind) or pt.is_time32(kind):
        return column.view(pa.int32())
    return column
